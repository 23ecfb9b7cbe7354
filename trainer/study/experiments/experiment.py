"""What every experiment is: the trainings that it wants, and what it finds once they are done."""

from collections.abc import Callable
from dataclasses import dataclass

from alacarte.api.literals import Composition, Weighting
from trainer.baselines.evaluate import EnsembleLogits, accuracy
from trainer.study.plan import Samples, StudyPlan
from trainer.study.results import ExperimentResult
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec


@dataclass(frozen=True)
class Experiment:
    """A question to the method, by name."""

    name: str
    required_trainings: Callable[[StudyPlan], list[TrainingSpec]]
    run: Callable[[StudyPlan, StudyRunner], ExperimentResult]
    unsupported_reason: Callable[[StudyPlan], str | None] = lambda _: None
    is_in_all: bool = True  # otherwise only by name


def composed_accuracy(
    opinions: EnsembleLogits, tests: Samples, composition: Composition = "average", weighting: Weighting = "none"
) -> float:
    """The share of the pictures that a set answers rightly."""
    return accuracy(opinions.compose(composition, weighting), [sample.label for sample in tests])


def mean_member_accuracy(opinions: EnsembleLogits, tests: Samples) -> float:
    """The mean share of the pictures that a member alone answers rightly."""
    members = range(len(opinions.labels))
    return sum(composed_accuracy(opinions.select_members([member]), tests) for member in members) / len(members)


def format_points(share: float) -> str:
    """A difference of shares for a person to read."""
    return f"{100 * share:+.1f} points"


def format_percent(share: float) -> str:
    """A share for a person to read."""
    return f"{100 * share:.1f} %"
