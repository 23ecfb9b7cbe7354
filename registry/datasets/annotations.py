"""Which file shows what: the answer that every layout of a collection gives, each in its own way."""

from dataclasses import dataclass

from registry.datasets.file_tree import Member
from registry.datasets.sample import Refusal


@dataclass(frozen=True)
class Claim:
    """The collection says that this file is a picture of this label."""

    label: str
    member: Member


@dataclass(frozen=True)
class Labelling:
    """All that a collection says about its files, not yet checked against their bytes."""

    claims: tuple[Claim, ...]
    labels: frozenset[str]  # each of them must be left with a picture
    faults: tuple[Refusal, ...] = ()  # files that cannot be samples, as bad as unreadable pictures
    refusals: tuple[Refusal, ...] = ()  # files that are left out without harm
