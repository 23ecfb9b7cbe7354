"""What the service itself refuses, beyond what the registry and the method do."""

from collections.abc import Sequence

from registry.errors import DomainError, Unauthenticated


class BodyTooLarge(DomainError):
    """More bytes than such a request may have; the rest was not read."""

    status = 413

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the request has more than {max_bytes} bytes: send less at once")


class BodyTooSlow(DomainError):
    """The client fell silent within its request, or took too long over it."""

    status = 408

    def __init__(self) -> None:
        super().__init__("the request did not arrive in time: send it again")


class BodyUnreadable(DomainError):
    """The body is not what its content type says."""

    status = 400


class MediaTypeRefused(DomainError):
    """A content type that this route does not read."""

    status = 415

    def __init__(self, found: str, wanted: Sequence[str]) -> None:
        super().__init__(f"the content type {found[:100]!r} is not read here: send {' or '.join(wanted)}")


class MethodNotAllowed(DomainError):
    """The path is there, and not for this method."""

    status = 405

    def __init__(self, methods: Sequence[str]) -> None:
        self.methods = ", ".join(methods)
        super().__init__(f"this method does nothing here: {self.methods} do")


class TokenMissing(Unauthenticated):
    """Nobody said who they are."""

    def __init__(self) -> None:
        DomainError.__init__(self, "a token is wanted: send it as `Authorization: Bearer …`")


class KeysUnavailable(DomainError):
    """Nobody knows which keys the issuer has, so no JWT can be checked: that is never a pass."""

    status = 503

    def __init__(self) -> None:
        super().__init__("the issuer's keys cannot be had, so its tokens cannot be checked: try again in a moment")


class TooManyRequests(DomainError):
    """One token asks faster than it may."""

    status = 429

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests with this token: go on in {retry_after} s")
        self.retry_after = retry_after


class Busy(DomainError):
    """As much of this is under way as there is room for."""

    status = 503


class NothingUsable(DomainError):
    """The caller has no prompt to answer with, so there is no answer: never a guess."""

    status = 409


class SetUnsettled(DomainError):
    """What the caller may use changed again and again while the answer was computed."""

    status = 503

    def __init__(self) -> None:
        super().__init__("what you may use kept changing while your answer was computed: ask again")


class NotReady(DomainError):
    """This replica cannot answer now."""

    status = 503
