"""The interface of an experiment, and the accuracies that experiments measure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alacarte.api.literals import Composition, Weighting
from trainer.baselines.evaluate import EnsembleLogits, accuracy
from trainer.study.paper import PaperDataSet
from trainer.study.plan import StudyPlan
from trainer.study.results import ExperimentResult
from trainer.study.runner import StudyRunner
from trainer.study.train_test_split import Samples
from trainer.study.training_spec import TrainingSpec


@dataclass(frozen=True)
class Experiment:
    """A named experiment: the trainings that it requires, and how it evaluates them."""

    name: str
    required_trainings: Callable[[StudyPlan], list[TrainingSpec]]
    run: Callable[[StudyPlan, StudyRunner], ExperimentResult]
    unsupported_reason: Callable[[StudyPlan], str | None] = lambda _: None
    is_in_all: bool = True  # otherwise only by name


def composed_accuracy(
    members: EnsembleLogits, tests: Samples, composition: Composition = "average", weighting: Weighting = "none"
) -> float:
    """Return the accuracy of the members' composed answers."""
    return accuracy(members.compose(composition, weighting), [sample.label for sample in tests])


def trained_accuracy(runner: StudyRunner, trainings: Sequence[TrainingSpec], tests: Samples) -> float:
    """Return the accuracy of the averaged answers of these trainings."""
    return composed_accuracy(runner.member_logits(trainings, tests), tests)


def mean_member_accuracy(members: EnsembleLogits, tests: Samples) -> float:
    """Return the mean of the accuracies that the members have alone."""
    count = len(members.labels)
    return sum(composed_accuracy(members.select_members([member]), tests) for member in range(count)) / count


def format_points(share: float) -> str:
    """Format a difference of shares, such as "+1.2 points"."""
    return f"{100 * share:+.1f} points"


def format_percent(share: float) -> str:
    """Format a share, such as "95.3 %"."""
    return f"{100 * share:.1f} %"


def paper_column(data_set: PaperDataSet | None, title: str = "") -> str:
    """Return the title of a column with the paper's numbers."""
    name = "paper" if data_set is None else f"paper, {data_set.name}"
    return f"{name}: {title}" if title else name
