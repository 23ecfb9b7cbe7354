"""The recipe: every setting that training depends on, the recipes that have a name, and those of a task."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from reprlib import repr as brief
from typing import Any, Literal, get_args

from alacarte.prompting.prompt.metadata import VARIANTS, SettingValue, Variant
from alacarte.prompting.prompt.tensors import MAX_MEMORY_TOKENS
from trainer.errors import RecipeInvalid

Augmentation = Literal["randaugment", "none"]
AUGMENTATIONS: tuple[Augmentation, ...] = get_args(Augmentation)

MAX_FLOAT = 1e38  # what single precision holds


@dataclass(frozen=True)
class Recipe:
    """How one prompt is trained; the defaults are the paper's.

    Two trainings with the same recipe on the same samples give the same bytes.
    """

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
    views: int | None = None  # augmented views of a picture, used in turn; None: a new one every epoch
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
            if not 0 <= value <= MAX_FLOAT:
                raise RecipeInvalid(f"{name} must be from 0 to {MAX_FLOAT:g}, not {value}")
            object.__setattr__(self, name, float(value))  # equal recipes are the same metadata: 1 is 1.0

    def view_at(self, epoch: int) -> int | None:
        """Return the number of the view that an epoch uses; None is the picture as it is served."""
        if self.augment == "none":
            return None
        return epoch if self.views is None else epoch % self.views

    @property
    def view_count(self) -> int:
        """The number of different views of a picture in the whole training."""
        if self.augment == "none":
            return 1
        return self.epochs if self.views is None else min(self.views, self.epochs)

    def settings(self) -> dict[str, SettingValue]:
        """Return the recipe as plain values, for the prompt's metadata."""
        return asdict(self)


PAPER = "paper"
DEFAULT = "default"

# The default was chosen on pictures held out from training, never on test pictures (docs/RESULTS.md). With few views of
# a picture, the backbone computes each of them once, so it trains in a small part of the paper's time.
RECIPES: dict[str, Recipe] = {PAPER: Recipe(), DEFAULT: Recipe(epochs=20, batch=16, base_rate=0.03, views=4)}

INTEGER_SETTINGS = frozenset({"memory", "epochs", "batch", "warmup_epochs", "views", "prototypes"})
NUMBER_SETTINGS = frozenset({"base_rate", "label_smoothing", "weight_decay", "warmup_rate", "least_rate"})
TEXT_SETTINGS = frozenset({"variant", "augment", "recipe"})
TASK_SETTINGS = INTEGER_SETTINGS | NUMBER_SETTINGS | TEXT_SETTINGS


def recipe_from_settings(settings: Mapping[str, Any], seed: int) -> Recipe:  # Any: not validated yet
    """Return the recipe of a shard with this seed: the named recipe, or the default, with the other settings applied.

    RecipeInvalid names a setting that is unknown or has a wrong value.
    """
    for name, value in settings.items():
        if name == "seed":
            raise RecipeInvalid("the task's recipe sets a seed, but every shard has its own: remove it")
        if name not in TASK_SETTINGS:
            raise RecipeInvalid(
                f"the task's recipe has the unknown setting {brief(name)}: use {', '.join(sorted(TASK_SETTINGS))}"
            )
        if name in INTEGER_SETTINGS and type(value) is not int:
            raise RecipeInvalid(f"{name} must be a whole number, not {brief(value)}")
        if name in NUMBER_SETTINGS and type(value) not in (int, float):
            raise RecipeInvalid(f"{name} must be a number, not {brief(value)}")
        if name in TEXT_SETTINGS and type(value) is not str:
            raise RecipeInvalid(f"{name} must be a text, not {brief(value)}")
    changes = {name: value for name, value in settings.items() if name != "recipe"}
    if "views" in changes:
        changes.setdefault("augment", "randaugment")  # views are always augmented pictures
    elif changes.get("augment") == "none":
        changes["views"] = None
    base = settings.get("recipe", DEFAULT)
    if base not in RECIPES:
        raise RecipeInvalid(f"no recipe {brief(base)}: use {' or '.join(RECIPES)}")
    return replace(RECIPES[base], **changes, seed=seed)
