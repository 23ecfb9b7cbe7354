"""The engine's settings: sizes of batches, queues and memory, and the device."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from service.engine.errors import EngineSettingsInvalid

MIB = 2**20


@dataclass(frozen=True)
class EngineSettings:
    """The defaults suit a small machine. `ServiceSettings` has the same names."""

    device: str = "cpu"  # as torch names it
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the backbone
    weights: Path | Literal["random"] | None = None  # of every backbone; None downloads them from the hub
    max_backbones: int = 2  # in memory
    prompt_cache_bytes: int = 512 * MIB  # on the device, for each backbone
    max_batch: int = 16  # pictures computed at once by all workers; more gain nothing on a CPU, and add latency
    max_pairs: int = 1024  # pairs of a picture and a prompt in one pass
    max_waiting: int = 256  # pictures in the queue
    decode_threads: int | None = None  # None: one more than cores
    load_threads: int = 8  # that read prompts from the object store
    load_bytes: int = 256 * MIB  # for prompts that are being loaded
    compute_threads: int | None = None  # of all workers on a CPU; None: torch's default

    def __post_init__(self) -> None:
        sizes = (self.max_backbones, self.max_batch, self.max_pairs, self.max_waiting, self.load_threads)
        optional = (self.decode_threads, self.compute_threads)
        if min(sizes) < 1 or any(size is not None and size < 1 for size in optional):
            raise ValueError("every size of batches, queues and thread pools must be at least 1")

    @property
    def max_active(self) -> int:
        """Return how many pictures may be active: a full batch, and as many that are prepared meanwhile."""
        return 2 * self.max_batch


def validate_device(settings: EngineSettings) -> None:
    """Raise EngineSettingsInvalid if the device or the weights cannot be used."""
    import torch  # not at the top: the process is tuned by these settings before torch is imported

    weights = settings.weights
    if weights is not None and weights != "random" and not weights.is_file():
        raise EngineSettingsInvalid(f"no weights at {weights}; set ALACARTE_WEIGHTS to a .safetensors file")
    try:
        torch.ones(1, device=settings.device).item()
    except (RuntimeError, AssertionError) as error:  # torch raises either for a missing device
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise EngineSettingsInvalid(
            f"device {settings.device!r} cannot be used ({reason}); set ALACARTE_DEVICE to another"
        ) from error
