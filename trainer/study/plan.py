"""The plan of a study: the training and test pictures of each domain, the recipes, and the size of each experiment."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from registry.catalog.shard_assignment import split_into_shards
from trainer.recipe import Recipe
from trainer.study.train_test_split import DomainSplit, Samples
from trainer.study.training_spec import TrainingSpec


@dataclass(frozen=True)
class StudyPlan:
    """The inputs that all experiments share; equal plans require the same trainings."""

    name: str  # of the data; also used to look up the paper's numbers for it
    domains: tuple[DomainSplit, ...]
    recipe: Recipe  # of prompts
    joint_recipe: Recipe | None  # of the paragon, with gradients through every token; None skips it
    tuned_recipe: Recipe | None  # of fine-tuned copies of the backbone; None skips them
    shard_counts: tuple[int, ...] = (2, 3, 5, 10, 20, 50)
    removal_shards: int = 20  # shards that are removed one by one
    removal_orders: int = 20  # random orders of removal
    episodes: int = 10

    @property
    def train(self) -> Samples:
        """All training pictures, without duplicates, sorted by digest."""
        return _deduplicate([domain.train for domain in self.domains])

    @property
    def test(self) -> Samples:
        """All test pictures that are not also training pictures."""
        trained = {sample.digest for sample in self.train}
        tests = _deduplicate([domain.test for domain in self.domains])
        return tuple(sample for sample in tests if sample.digest not in trained)

    def prompt_training(self, samples: Samples) -> TrainingSpec:
        """The training of a prompt with structured attention."""
        return TrainingSpec("structured", samples, self.recipe)

    def head_training(self, samples: Samples) -> TrainingSpec:
        """The training of a head without a prompt, otherwise as for prompts."""
        return TrainingSpec("structured", samples, replace(self.recipe, variant="head-only"))

    @property
    def paragon_training(self) -> TrainingSpec | None:
        """The training of one prompt on all data with full attention; None if it is skipped."""
        return None if self.joint_recipe is None else TrainingSpec("full", self.train, self.joint_recipe)

    def shards(self, count: int) -> tuple[Samples, ...]:
        """Split the training pictures into `count` shards as a source would, without the empty ones."""
        key = hashlib.sha256(f"shards of seed {self.recipe.seed}".encode()).digest()
        return tuple(shard for shard in split_into_shards(self.train, key, count) if shard)

    def shard_trainings(self, count: int) -> list[TrainingSpec]:
        """The trainings of a prompt for each of `count` shards."""
        return [self.prompt_training(shard) for shard in self.shards(count)]

    def feasible_shard_counts(self) -> tuple[int, ...]:
        """The shard counts that leave at least two pictures to a shard on average."""
        return tuple(count for count in self.shard_counts if len(self.train) >= 2 * count)


def _deduplicate(collections: Sequence[Samples]) -> Samples:
    by_digest = {sample.digest: sample for samples in reversed(collections) for sample in samples}
    return tuple(by_digest[digest] for digest in sorted(by_digest))
