"""What the engine tells about itself, for metrics."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BatchStats:
    """One batch that was computed."""

    pictures: int
    pairs: int
    queue_seconds: tuple[float, ...]  # for each picture, from its admission to the start of its (last) pass
    seconds: float  # of computing


@dataclass(frozen=True)
class EngineStats:
    """How much is under way, and how much was done since the start."""

    waiting_pictures: int  # admitted, and not begun
    active_pictures: int
    ready_pictures: int  # of them, those that wait for nothing but the device
    backbones: int
    cached_prompts: int
    cached_prompt_bytes: int
    hits: int  # prompts that were asked for and found in their slots
    misses: int  # prompts that were asked for and had to be fetched
    batches: int
    pictures: int  # passes of pictures: one with more prompts than fit has several
    pairs: int
    failures: int  # pictures that the device failed on
