"""The errors of the domain. Each has an HTTP status and a message of one line."""


class DomainError(Exception):
    """The request cannot be fulfilled; the message says why and what to do."""

    status: int = 400


class DatasetRejected(DomainError):
    """A dataset of labelled pictures was refused as a whole; nothing of it was stored."""

    status = 422


class LimitExceeded(DatasetRejected):
    """A dataset exceeds one of the limits of this installation."""

    status = 413


class InvalidPicture(DomainError):
    """A picture cannot be decoded, is truncated, or is too large."""

    status = 422


class DatabaseUnreachable(DomainError):
    """The database does not answer, or not in time."""

    status = 503


class DatabaseUnusable(DomainError):
    """The configured database cannot be used as it is."""

    status = 500


class NotFound(DomainError):
    """It does not exist, or the caller may not see it; the message does not say which."""

    status = 404

    def __init__(self, kind: str, name: object) -> None:
        super().__init__(f"no {kind} {str(name)!r} that you may see")


class Forbidden(DomainError):
    """The caller may see the object but lacks the right to do this."""

    status = 403


class Unauthenticated(DomainError):
    """The credential is missing, unknown, expired or revoked; the message does not say which."""

    status = 401

    def __init__(self) -> None:
        super().__init__("the token is unknown, expired or revoked: ask an admin for a new one")


class Conflict(DomainError):
    """The request conflicts with the current state."""

    status = 409


class Invalid(DomainError):
    """A value is not allowed; the message says which values are."""

    status = 422


class LeaseLost(Conflict):
    """The lease or write claim has ended: stop the work and remove its files."""
