"""What every experiment is: the trainings that it wants, and what it finds once they are done."""

from collections.abc import Callable
from dataclasses import dataclass

from alacarte.api.literals import Composition, Weighting
from trainer.baselines.evaluate import accuracy
from trainer.baselines.member_logits import Opinions
from trainer.study.plan import Plan, Samples
from trainer.study.results import Finding
from trainer.study.runner import Laboratory
from trainer.study.train_prompts import Training


@dataclass(frozen=True)
class Experiment:
    """A question to the method, by name."""

    name: str
    wants: Callable[[Plan], list[Training]]
    find: Callable[[Plan, Laboratory], Finding]
    cannot: Callable[[Plan], str | None] = lambda _: None  # why it makes no sense with this plan, if so
    is_in_all: bool = True  # or carried out only by name


def right(
    opinions: Opinions, tests: Samples, composition: Composition = "average", weighting: Weighting = "none"
) -> float:
    """The share of the pictures that a set answers rightly."""
    return accuracy(opinions.compose(composition, weighting), [sample.label for sample in tests])


def mean_of_each(opinions: Opinions, tests: Samples) -> float:
    """The mean share of the pictures that a member alone answers rightly."""
    members = range(len(opinions.labels))
    return sum(right(opinions.only([member]), tests) for member in members) / len(members)


def in_points(share: float) -> str:
    """A difference of shares for a person to read."""
    return f"{100 * share:+.1f} points"


def in_percent(share: float) -> str:
    """A share for a person to read."""
    return f"{100 * share:.1f} %"
