"""The engine's counts for the metrics."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BatchStats:
    """One computed batch."""

    pictures: int
    pairs: int
    queue_seconds: tuple[float, ...]  # for each picture, from its admission to the start of its (last) pass
    seconds: float  # of computing


@dataclass(frozen=True)
class EngineStats:
    """What the engine is doing, and counts since its start."""

    waiting_pictures: int  # admitted, and not started
    active_pictures: int
    ready_pictures: int  # active pictures that only wait for the device
    backbones: int
    cached_prompts: int
    cached_prompt_bytes: int
    hits: int  # requested prompts that were cached
    misses: int  # requested prompts that had to be loaded
    batches: int
    pictures: int  # counted once a pass: a picture with many prompts has several
    pairs: int
    failures: int  # pictures that the device failed on
