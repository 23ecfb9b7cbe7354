"""What a study is made of: the pictures, the recipes and how far each experiment goes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from registry.catalog.shards import split
from registry.datasets.sample import Sample
from trainer.recipe import Recipe
from trainer.study.train_prompts import Training

Samples = tuple[Sample, ...]


@dataclass(frozen=True)
class Part:
    """A domain with something to learn from and something to be asked about."""

    name: str
    train: Samples
    test: Samples


@dataclass(frozen=True)
class Plan:
    """Everything that experiments share; the same plan wants the same trainings."""

    name: str  # of the data, for the report, and to find the paper's numbers for it
    parts: tuple[Part, ...]  # domains
    recipe: Recipe  # of prompts
    joint: Recipe | None  # of the paragon and its like, with a gradient through every token; None: leave them out
    tuned: Recipe | None  # of copies of the backbone that learn; None: leave them out
    counts: tuple[int, ...] = (2, 3, 5, 10, 20, 50)  # of shards
    forgetful: int = 20  # shards of which one after the other is removed
    orders: int = 20  # in which they are removed
    episodes: int = 10

    @property
    def train(self) -> Samples:
        """All pictures to learn from, each once, sorted by digest."""
        return _once([part.train for part in self.parts])

    @property
    def test(self) -> Samples:
        """All pictures to be asked about that nobody has learnt from."""
        learnt = {sample.digest for sample in self.train}
        return tuple(sample for sample in _once([part.test for part in self.parts]) if sample.digest not in learnt)

    def training(self, samples: Samples) -> Training:
        """A prompt with structured attention."""
        return Training("structured", samples, self.recipe)

    @property
    def paragon(self) -> Training | None:
        """One prompt on everything, every token attending every other."""
        return None if self.joint is None else Training("full", self.train, self.joint)

    def head(self, samples: Samples) -> Training:
        """A head without a prompt, otherwise trained as prompts are."""
        return Training("structured", samples, replace(self.recipe, variant="head-only"))

    def shards(self, count: int) -> tuple[Samples, ...]:
        """All that there is to learn from in `count` shards, as a source would split it; none is empty."""
        key = hashlib.sha256(f"shards of seed {self.recipe.seed}".encode()).digest()
        return tuple(shard for shard in split(self.train, key, count) if shard)

    def possible_counts(self) -> tuple[int, ...]:
        """The numbers of shards that leave at least two pictures to each, on average."""
        return tuple(count for count in self.counts if len(self.train) >= 2 * count)


def _once(collections: Sequence[Samples]) -> Samples:
    found = {sample.digest: sample for samples in reversed(collections) for sample in samples}
    return tuple(found[digest] for digest in sorted(found))
