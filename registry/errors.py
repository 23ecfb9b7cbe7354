"""The errors of the domain: each carries the status it has over HTTP and one line for a person to read."""


class DomainError(Exception):
    """What was asked cannot be done, and the message says why and what to do."""

    status: int = 400


class DatasetRejected(DomainError):
    """A collection of labelled pictures was refused as a whole, and nothing of it was kept."""

    status = 422


class LimitExceeded(DatasetRejected):
    """A collection is larger, in some measure, than this installation reads."""

    status = 413


class InvalidPicture(DomainError):
    """Bytes that should be a picture are none, are cut off, or are too large to be decoded."""

    status = 422


class DatabaseUnreachable(DomainError):
    """The database does not answer, or not in time; nothing was changed."""

    status = 503


class DatabaseUnusable(DomainError):
    """The database that the settings name cannot be used as it is."""

    status = 500


class NotFound(DomainError):
    """There is no such thing, or none that the caller may see: the two look alike."""

    status = 404

    def __init__(self, kind: str, name: object) -> None:
        super().__init__(f"no {kind} {str(name)!r} that you may see")


class Forbidden(DomainError):
    """The caller may see this, and may not do that."""

    status = 403


class Unauthenticated(DomainError):
    """The token is missing, unknown, expired or revoked: which of them is not told."""

    status = 401

    def __init__(self) -> None:
        super().__init__("the token is unknown, expired or revoked: ask an admin for a new one")


class Conflict(DomainError):
    """What was asked collides with what there is."""

    status = 409


class Invalid(DomainError):
    """A value is of the wrong kind; the message says which would do."""

    status = 422


class LeaseLost(Conflict):
    """The work belongs to somebody else by now, or to nobody: stop, and wipe what was fetched for it."""
