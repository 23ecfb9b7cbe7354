"""Why a question gets no answer from this replica, at least not now."""

from math import ceil

from registry.errors import DomainError


class Overloaded(DomainError):
    """More is asked than this replica can answer in time; nothing was computed."""

    status = 503

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = max(1, ceil(retry_after))  # seconds, as the header of that name wants them


class DeadlinePassed(DomainError):
    """The answer was not there in the time that it may take."""

    status = 503

    def __init__(self) -> None:
        super().__init__("there was no answer in time: ask again, with fewer pictures or when there is less to do")
        self.retry_after = 1


class EngineSettingsInvalid(DomainError):
    """The settings name a device or weights with which nothing could ever be computed."""

    status = 500


class BackboneUnavailable(DomainError):
    """This replica cannot build the task's backbone."""

    status = 503

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = max(1, ceil(retry_after))  # seconds


class BackboneWeightsMismatch(DomainError):
    """This replica has other weights of the backbone than those that the task's prompts were trained on."""

    status = 503

    def __init__(self, backbone: str, theirs: str, ours: str) -> None:
        super().__init__(
            f"the prompts of this task were trained on other weights of {backbone} ({theirs[:12]}) than this replica "
            f"has ({ours[:12]}): give it the same weights"
        )


class PromptUnusable(DomainError):
    """A stored prompt is not one that this backbone can use."""

    status = 500


class ComputationFailed(DomainError):
    """The device failed on this picture and these prompts."""

    status = 500

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"the answer could not be computed ({type(error).__name__}): see the log of this replica")


class PromptEvicted(Exception):
    """A prompt has left its slot since it was looked for; whoever waits fetches it and asks again."""
