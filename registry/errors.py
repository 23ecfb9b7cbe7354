"""The errors of the domain: each carries the status it has over HTTP and one line for a person to read."""


class DomainError(Exception):
    """What was asked cannot be done, and the message says why and what to do."""

    status: int = 400


class CollectionRefused(DomainError):
    """A collection of labelled pictures was refused as a whole, and nothing of it was kept."""

    status = 422


class LimitExceeded(CollectionRefused):
    """A collection is larger, in some measure, than this installation reads."""

    status = 413


class PictureUnreadable(DomainError):
    """Bytes that should be a picture are none, are cut off, or are too large to be decoded."""

    status = 422
