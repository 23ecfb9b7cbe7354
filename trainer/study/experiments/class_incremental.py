"""Class-incremental: every episode brings classes that nobody has seen, and its prompt knows no others."""

import random

from registry.datasets.dataset import LabelledPicture
from trainer.study import paper
from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_percent
from trainer.study.plan import Samples, StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, Series, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec


def episodes(plan: StudyPlan) -> tuple[Samples, ...]:
    """The classes in a random order, cut into parts that differ by one class at most."""
    labels = sorted({sample.label for sample in plan.train})
    random.Random(plan.recipe.seed).shuffle(labels)
    places = {label: place * plan.episodes // len(labels) for place, label in enumerate(labels)}
    parts: list[list[LabelledPicture]] = [[] for _ in range(plan.episodes)]
    for sample in plan.train:
        parts[places[sample.label]].append(sample)
    return tuple(tuple(part) for part in parts)


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each episode."""
    return [plan.prompt_training(part) for part in episodes(plan)]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """The accuracy on all classes so far after each episode, unweighted and weighted."""
    parts = episodes(plan)
    said = runner.member_logits(required_trainings(plan), plan.test)
    plain: list[float] = []
    weighted: list[float] = []
    for count in range(1, len(parts) + 1):
        known = {sample.label for part in parts[:count] for sample in part}
        asked = [place for place, sample in enumerate(plan.test) if sample.label in known]
        tests = tuple(plan.test[place] for place in asked)
        so_far = said.select_members(range(count)).select_pictures(asked)
        plain.append(composed_accuracy(so_far, tests, "concat"))
        weighted.append(composed_accuracy(so_far, tests, "concat", "prototypes"))
    numbers = range(1, len(parts) + 1)
    return ExperimentResult(
        name="class-incremental",
        title="Class-incremental learning",
        question=f"The classes come in {len(parts)} episodes, each learnt by a prompt that never sees another class. "
        "How good is the whole in the end, over all classes?",
        tables=(
            Table(
                f"Accuracy over all classes, after {len(parts)} episodes",
                (
                    Column("method", "text"),
                    Column("here"),
                    Column("paper, Split CIFAR-100", from_paper=True),
                ),
                (
                    ("APT", plain[-1], paper.CLASS_INCREMENTAL["APT"]),
                    ("APT-W", weighted[-1], paper.CLASS_INCREMENTAL["APT-W"]),
                    *((name, None, share) for name, share in paper.CLASS_INCREMENTAL.items() if "APT" not in name),
                ),
                "The paper learns from all 50,000 pictures of CIFAR-100 with ViT-B/16 at 224 px, 5 epochs.",
            ),
        ),
        plots=(
            Plot(
                "Accuracy over the classes so far",
                "episodes",
                "accuracy",
                "share",
                (
                    Series("APT-W", tuple(zip(numbers, weighted, strict=True))),
                    Series("APT", tuple(zip(numbers, plain, strict=True))),
                ),
            ),
        ),
        claims=(
            ClaimCheck(
                "APT-W is at least as good as APT.",
                f"APT-W {format_percent(weighted[-1])}, APT {format_percent(plain[-1])}",
                weighted[-1] >= plain[-1],
            ),
        ),
    )


def unsupported_reason(plan: StudyPlan) -> str | None:
    """Why the classes make no episodes."""
    classes = len({sample.label for sample in plan.train})
    if classes < 2 * plan.episodes:
        return f"{classes} classes are too few for {plan.episodes} episodes of at least two"
    asked = {sample.label for sample in plan.test}
    if not all(asked & {sample.label for sample in part} for part in episodes(plan)):
        return "of the classes of some episode there is no picture to be asked about"
    return None


CLASS_INCREMENTAL = Experiment("class-incremental", required_trainings, run, unsupported_reason)
