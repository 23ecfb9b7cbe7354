"""The recipe: every setting that training depends on, with the paper's values as defaults."""

import math
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from alacarte.prompting.prompt.tensors import MAX_MEMORY_TOKENS, VARIANTS, SettingValue, Variant
from trainer.errors import RecipeInvalid

Augmentation = Literal["randaugment", "none"]
AUGMENTATIONS: tuple[Augmentation, ...] = get_args(Augmentation)

PROMPT_RATE = 0.1
HEAD_RATE = 0.5
RATE_BATCH = 256  # the batch that base rates are given for
LARGEST = 1e38  # what single precision holds


@dataclass(frozen=True)
class Recipe:
    """How one prompt is trained. Two trainings with the same recipe on the same samples give the same bytes."""

    variant: Variant = "deep"
    memory: int = 5  # memory tokens a block
    epochs: int = 80
    batch: int = 8
    base_rate: float | None = None  # for a batch of 256; None: the paper's for the variant
    weight_decay: float = 0.02
    warmup_epochs: int = 1
    warmup_rate: float = 1e-5
    least_rate: float = 1e-6
    label_smoothing: float = 0.0  # of the target, spread over all labels of the shard
    augment: Augmentation = "randaugment"
    views: int | None = None  # augmented views of a picture that take turns; None: a new one every epoch
    prototypes: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("memory", "epochs", "batch", "prototypes", "views"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise RecipeInvalid(f"{name} must be at least 1, not {value}")
        if self.memory > MAX_MEMORY_TOKENS:
            raise RecipeInvalid(f"memory must be at most {MAX_MEMORY_TOKENS} tokens a block, not {self.memory}")
        if self.variant not in VARIANTS:
            raise RecipeInvalid(f"no variant {self.variant!r}; choose from {', '.join(VARIANTS)}")
        if self.augment not in AUGMENTATIONS:
            raise RecipeInvalid(f"no augmentation {self.augment!r}; choose from {', '.join(AUGMENTATIONS)}")
        if self.views is not None and self.augment == "none":
            raise RecipeInvalid("views are augmented pictures: leave them out, or choose an augmentation")
        if not 0 <= self.seed < 2**64:
            raise RecipeInvalid(f"seed must be from 0 to 2^64 - 1, not {self.seed}")
        if self.warmup_epochs < 0:
            raise RecipeInvalid(f"warmup_epochs must be at least 0, not {self.warmup_epochs}")
        if not 0 <= self.label_smoothing < 1:
            raise RecipeInvalid(f"label_smoothing must be from 0 to below 1, not {self.label_smoothing}")
        object.__setattr__(self, "label_smoothing", float(self.label_smoothing))
        for name in ("weight_decay", "warmup_rate", "least_rate", "base_rate"):
            value = getattr(self, name)
            if value is None:
                continue
            if not 0 <= value <= LARGEST:
                raise RecipeInvalid(f"{name} must be from 0 to {LARGEST:g}, not {value}")
            object.__setattr__(self, name, float(value))  # equal recipes write equal facts: 1 is 1.0

    @property
    def peak_rate(self) -> float:
        """The highest rate: the base rate scaled by batch / 256."""
        base = self.base_rate
        if base is None:
            base = HEAD_RATE if self.variant == "head-only" else PROMPT_RATE
        return base * self.batch / RATE_BATCH

    def rate_at(self, step: int, steps_per_epoch: int) -> float:
        """The rate of a step: linear from `warmup_rate` to the peak, then a cosine down to `least_rate`.

        The last epoch is never a warm-up: a training of one epoch has none.
        """
        warmup = min(self.warmup_epochs, self.epochs - 1) * steps_per_epoch
        if step < warmup:
            return self.warmup_rate + (self.peak_rate - self.warmup_rate) * step / warmup
        rest = self.epochs * steps_per_epoch - warmup
        turn = math.pi * (step - warmup) / max(rest, 1)
        return self.least_rate + (self.peak_rate - self.least_rate) * (1 + math.cos(turn)) / 2

    def view_at(self, epoch: int) -> int | None:
        """Which view of each picture an epoch looks at; None is the picture as it is served."""
        if self.augment == "none":
            return None
        return epoch if self.views is None else epoch % self.views

    @property
    def views_in_all(self) -> int:
        """How many different views of a picture the whole training looks at."""
        if self.augment == "none":
            return 1
        return self.epochs if self.views is None else min(self.views, self.epochs)

    def settings(self) -> dict[str, SettingValue]:
        """The settings as plain values, for the prompt's metadata."""
        return asdict(self)
