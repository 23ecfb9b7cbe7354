"""Why the engine cannot answer a request."""

from math import ceil

from registry.errors import DomainError


class TemporarilyUnavailable(DomainError):
    """This replica cannot answer now."""

    status = 503

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = max(1, ceil(retry_after))  # seconds, for the Retry-After header


class Overloaded(TemporarilyUnavailable):
    """The queue is full or closed; nothing was computed."""


class DeadlinePassed(TemporarilyUnavailable):
    """The request took longer than it may."""

    def __init__(self) -> None:
        super().__init__("the request timed out; retry with fewer pictures, or later", retry_after=1)


class BackboneUnavailable(TemporarilyUnavailable):
    """This replica cannot build the task's backbone."""


class EngineSettingsInvalid(DomainError):
    """The settings name a device or weights that cannot be used."""

    status = 500


class BackboneWeightsMismatch(DomainError):
    """This replica has other weights than those that the task's prompts were trained on."""

    status = 503

    def __init__(self, backbone: str, theirs: str, ours: str) -> None:
        super().__init__(
            f"the prompts of this task were trained on other weights of {backbone} ({theirs[:12]}) than this replica "
            f"has ({ours[:12]}); set ALACARTE_WEIGHTS to the same weights"
        )


class PromptUnusable(DomainError):
    """A stored prompt is damaged or was trained on another backbone."""

    status = 500


class ComputationFailed(DomainError):
    """The device failed on this picture and these prompts."""

    status = 500

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"the prediction failed ({type(error).__name__}); see the log of this replica")


class PromptEvicted(Exception):
    """A prompt left its slot before the pass. The model runner loads it and tries again."""
