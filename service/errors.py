"""Errors of the service itself; those of the registry and of the method are in their own packages."""

from collections.abc import Sequence

from registry.errors import DomainError, Unauthenticated


class BodyTooLarge(DomainError):
    """The request body is larger than its route allows; the rest was not read."""

    status = 413

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the request body is larger than {max_bytes} bytes: send less at once")


class BodyTooSlow(DomainError):
    """The client paused too long within its request, or sent too slowly."""

    status = 408

    def __init__(self) -> None:
        super().__init__("the request body did not arrive in time: send it again")


class MalformedBody(DomainError):
    """The body does not parse as its content type."""

    status = 400


class UnsupportedMediaType(DomainError):
    """A content type that the route does not accept."""

    status = 415

    def __init__(self, content_type: str, supported: Sequence[str]) -> None:
        super().__init__(f"content type {content_type[:100]!r} is not supported here: send {' or '.join(supported)}")


class MethodNotAllowed(DomainError):
    """The path exists, but not with this method."""

    status = 405

    def __init__(self, methods: Sequence[str]) -> None:
        self.methods = ", ".join(methods)
        super().__init__(f"Method not allowed. Allowed: {self.methods}.")


class TokenMissing(Unauthenticated):
    """The request has no bearer token."""

    def __init__(self) -> None:
        DomainError.__init__(self, "a token is required: send it as `Authorization: Bearer …`")


class IssuerKeysUnavailable(DomainError):
    """The issuer's keys were never fetched, so no JWT can be verified; none is accepted unverified."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the issuer's keys cannot be fetched, so its tokens cannot be verified: try again in a moment")


class TooManyRequests(DomainError):
    """A token has exceeded its rate limit."""

    status = 429

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests with this token: try again in {retry_after} s")
        self.retry_after = retry_after


class Busy(DomainError):
    """A limit of this replica is reached."""

    status = 503


class NoUsablePrompts(DomainError):
    """The caller may use no prompt of the task, so there is no answer."""

    status = 409


class RightsChanged(DomainError):
    """The caller's rights changed during every attempt to compute the answer."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the prompts that you may use kept changing while the answer was computed: try again")


class NotReady(DomainError):
    """This replica cannot serve requests now."""

    status = 503
