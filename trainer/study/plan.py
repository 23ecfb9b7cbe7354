"""The plan of a study: the training and test pictures of each domain, the recipes, and the size of each experiment."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from alacarte.api.literals import UnreadablePolicy
from registry.catalog.shard_assignment import assign_shard, split_into_shards
from registry.datasets.dataset import LabelledPicture
from registry.datasets.domains import Domain, open_domains
from trainer.recipe import Recipe
from trainer.study.training_spec import TrainingSpec

HELD_OUT_DIVISOR = 5  # a fifth of the pictures is held out

Samples = tuple[LabelledPicture, ...]


@dataclass(frozen=True)
class DomainSplit:
    """The training and test pictures of one domain."""

    name: str
    train: Samples
    test: Samples


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


@contextmanager
def open_domain_splits(
    path: Path, scratch: Path | None, unreadable: UnreadablePolicy, seed: int, log: Callable[[str], None]
) -> Iterator[tuple[DomainSplit, ...]]:
    """Open the data set at `path`; its files exist until the context is left. Without test pictures, hold some out."""
    with open_domains(path, scratch=scratch, unreadable=unreadable) as domains:
        for domain in domains:
            refusals = [*domain.train.skipped, *(() if domain.test is None else domain.test.skipped)]
            if refusals:
                log(f"{len(refusals)} files skipped; the first is {refusals[0].name}: {refusals[0].reason}")
        if any(domain.test is None for domain in domains):
            log(f"the data has no test pictures: one in {HELD_OUT_DIVISOR} is held out, by a hash of its bytes")
        yield tuple(_split_domain(domain, seed) for domain in domains)


def _split_domain(domain: Domain, seed: int) -> DomainSplit:
    if domain.test is not None:
        return DomainSplit(domain.name, domain.train.samples, domain.test.samples)
    return DomainSplit(domain.name, *hold_out(domain.train.samples, f"test pictures of seed {seed}"))


def hold_out(samples: Sequence[LabelledPicture], key_name: str) -> tuple[Samples, Samples]:
    """Split samples into a large and a held-out part by a keyed hash, so that a picture never changes sides."""
    key = hashlib.sha256(key_name.encode()).digest()
    is_held_out = {sample.digest: assign_shard(sample.digest, key, HELD_OUT_DIVISOR) == 0 for sample in samples}
    return (
        tuple(sample for sample in samples if not is_held_out[sample.digest]),
        tuple(sample for sample in samples if is_held_out[sample.digest]),
    )


def _deduplicate(collections: Sequence[Samples]) -> Samples:
    by_digest = {sample.digest: sample for samples in reversed(collections) for sample in samples}
    return tuple(by_digest[digest] for digest in sorted(by_digest))
