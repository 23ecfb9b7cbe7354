"""What goes wrong between a client and the service, each in one line for a person to read."""


class ClientError(Exception):
    """The service was asked in vain; the message says why."""


class ServiceProblem(ClientError):
    """The service refused, and said why; `kind` names the problem for programs, and does not change."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        *,
        kind: str = "",
        request_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{title} ({status}): {detail}" if detail else f"{title} ({status})")
        self.status = status
        self.title = title
        self.detail = detail
        self.kind = kind
        self.request_id = request_id
        self.retry_after_s = retry_after_s


class ServiceUnreachable(ClientError):
    """Nobody answered, or not in time; whether something was done is not known."""


class AnswerUnreadable(ClientError):
    """Whoever answered is no service of this kind, or one of another version."""


class FolderUnfit(ClientError):
    """A folder cannot be sent as it is."""


class WaitedInVain(ClientError):
    """What was waited for has not come in time, or cannot come."""
