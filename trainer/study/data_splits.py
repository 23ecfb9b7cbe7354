"""The pictures of a study from a data set; where nothing was set apart to be asked about, a part is."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from registry.catalog.shards import shard_of
from registry.datasets.dataset import Domain, open_data_set
from registry.datasets.sample import Sample
from registry.datasets.validate import Unreadable
from trainer.study.plan import Part, Samples

SET_APART = 5  # one in so many pictures


@contextmanager
def open_parts(
    path: Path, scratch: Path | None, unreadable: Unreadable, seed: int, say: Callable[[str], None]
) -> Iterator[tuple[Part, ...]]:
    """The domains of the data set at `path`; their files are there until the context is left."""
    with open_data_set(path, scratch=scratch, unreadable=unreadable) as domains:
        for domain in domains:
            refusals = [*domain.train.refusals, *(() if domain.test is None else domain.test.refusals)]
            if refusals:
                say(f"{len(refusals)} files left out; the first is {refusals[0].name}: {refusals[0].reason}")
        if any(domain.test is None for domain in domains):
            say(f"the data has no test pictures: one in {SET_APART} is set apart, by a hash of its bytes")
        yield tuple(_part(domain, seed) for domain in domains)


def _part(domain: Domain, seed: int) -> Part:
    if domain.test is not None:
        return Part(domain.name, domain.train.samples, domain.test.samples)
    return Part(domain.name, *set_apart(domain.train.samples, f"test pictures of seed {seed}"))


def set_apart(samples: Sequence[Sample], name: str) -> tuple[Samples, Samples]:
    """Most of the samples, and the others; which is which is drawn by name, and never changes for a picture."""
    key = hashlib.sha256(name.encode()).digest()
    drawn = [shard_of(sample.digest, key, SET_APART) == 0 for sample in samples]
    most = tuple(sample for sample, is_apart in zip(samples, drawn, strict=True) if not is_apart)
    return most, tuple(sample for sample, is_apart in zip(samples, drawn, strict=True) if is_apart)
