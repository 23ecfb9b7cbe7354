"""The training and test pictures of each domain; where there are no test pictures, some are held out."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from alacarte.api.literals import UnreadablePolicy
from registry.catalog.shard_assignment import assign_shard
from registry.datasets.dataset import LabelledPicture
from registry.datasets.domains import Domain, open_domains

HELD_OUT_DIVISOR = 5  # a fifth of the pictures is held out

Samples = tuple[LabelledPicture, ...]


@dataclass(frozen=True)
class DomainSplit:
    """The training and test pictures of one domain."""

    name: str
    train: Samples
    test: Samples


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
