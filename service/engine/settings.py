"""How much the engine takes on at once, and where it computes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from service.engine.errors import EngineSettingsInvalid

Precision = Literal["float32", "bfloat16", "float16"]
MIB = 2**20


@dataclass(frozen=True)
class EngineSettings:
    """Sizes of batches, queues and memory; the defaults suit a small machine."""

    device: str = "cpu"  # in torch's words
    precision: Precision = "float32"
    weights: Path | Literal["random"] | None = None  # of every backbone; from the hub if none is given
    backbones: int = 2  # that stay in memory
    prompt_bytes: int = 512 * MIB  # of prompts on the device, for each backbone
    batch_pictures: int = 16  # computed at once at most, by all lanes: on a CPU more spare nothing, and everyone waits
    batch_pairs: int = 1024  # of a picture and a prompt, in one pass at most
    queue_pictures: int = 256  # that may wait
    decode_threads: int | None = None  # one more than cores, so that there is one that a single user does not have
    load_threads: int = 8  # that read prompts from the object store
    load_bytes: int = 256 * MIB  # of prompts on their way from the store into their slots, made ready for them
    compute_threads: int | None = None  # of all passes on a CPU; as torch would choose

    def __post_init__(self) -> None:
        sizes = (self.backbones, self.batch_pictures, self.batch_pairs, self.queue_pictures, self.load_threads)
        optional = (self.decode_threads, self.compute_threads)
        if min(sizes) < 1 or any(size is not None and size < 1 for size in optional):
            raise ValueError("every size of the engine's batches, queues and threads must be at least 1")

    @property
    def places(self) -> int:
        """Pictures under way at once: those that are computed, and as many that are made ready meanwhile."""
        return 2 * self.batch_pictures


def cores() -> int:
    """How many cores this process is allowed on, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def validate_device(settings: EngineSettings) -> None:
    """EngineSettingsInvalid for a device that is not there, or weights that are none."""
    import torch  # here, since the process is tuned before torch is imported, and by these settings

    weights = settings.weights
    if weights is not None and weights != "random" and not weights.is_file():
        raise EngineSettingsInvalid(f"there are no weights at {weights}: set ALACARTE_WEIGHTS to a .safetensors file")
    try:
        torch.ones(1, device=settings.device).item()
    except (RuntimeError, AssertionError) as error:  # both are torch's ways to say that it has none
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise EngineSettingsInvalid(
            f"the device {settings.device!r} cannot be used ({reason}): set ALACARTE_DEVICE to another"
        ) from error
