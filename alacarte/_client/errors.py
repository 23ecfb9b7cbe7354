"""The errors of the client, each with a message of one line."""


class ClientError(Exception):
    """The base class of all errors of the client."""


class ServiceProblem(ClientError):
    """The service answered with a problem; `kind` identifies the problem for programs and does not change."""

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
    """The service did not answer, or not in time; whether it has processed the request is unknown."""


class InvalidResponse(ClientError):
    """The response is not that of an alacarte service, or of one of another version."""


class InvalidFolder(ClientError):
    """A folder cannot be uploaded as it is."""


class WaitTimeout(ClientError):
    """The awaited state was not reached in time, or cannot be reached."""
