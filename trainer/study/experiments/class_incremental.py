"""Class-incremental learning: every episode brings new classes, and its prompt knows no others."""

import random

from registry.datasets.dataset import LabelledPicture
from trainer.study import paper
from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_percent
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, Series, Table
from trainer.study.runner import StudyRunner
from trainer.study.train_test_split import Samples
from trainer.study.training_spec import TrainingSpec


def split_into_episodes(plan: StudyPlan) -> tuple[Samples, ...]:
    """Split the training pictures by class, in a random order, into episodes of nearly equal numbers of classes."""
    labels = sorted({sample.label for sample in plan.train})
    random.Random(plan.recipe.seed).shuffle(labels)
    episode_of = {label: index * plan.episodes // len(labels) for index, label in enumerate(labels)}
    episodes: list[list[LabelledPicture]] = [[] for _ in range(plan.episodes)]
    for sample in plan.train:
        episodes[episode_of[sample.label]].append(sample)
    return tuple(tuple(episode) for episode in episodes)


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each episode."""
    return [plan.prompt_training(episode) for episode in split_into_episodes(plan)]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Measure the accuracy on all classes so far after each episode, unweighted and weighted."""
    episodes = split_into_episodes(plan)
    members = runner.member_logits(required_trainings(plan), plan.test)
    plain: list[float] = []
    weighted: list[float] = []
    for count in range(1, len(episodes) + 1):
        known = {sample.label for episode in episodes[:count] for sample in episode}
        indices = [index for index, sample in enumerate(plan.test) if sample.label in known]
        tests = tuple(plan.test[index] for index in indices)
        so_far = members.select_members(range(count)).select_pictures(indices)
        plain.append(composed_accuracy(so_far, tests, "concat"))
        weighted.append(composed_accuracy(so_far, tests, "concat", "prototypes"))
    numbers = range(1, len(episodes) + 1)
    return ExperimentResult(
        name="class-incremental",
        title="Class-incremental learning",
        question=f"The classes come in {len(episodes)} episodes, each with a prompt that is trained on no other class. "
        "How accurate are the composed prompts in the end, over all classes?",
        tables=(
            Table(
                f"Accuracy over all classes, after {len(episodes)} episodes",
                (Column("method", "text"), Column("here"), Column("paper, Split CIFAR-100", from_paper=True)),
                (
                    ("APT", plain[-1], paper.CLASS_INCREMENTAL["APT"]),
                    ("APT-W", weighted[-1], paper.CLASS_INCREMENTAL["APT-W"]),
                    *((name, None, share) for name, share in paper.CLASS_INCREMENTAL.items() if "APT" not in name),
                ),
                "The paper trains on all 50,000 pictures of CIFAR-100 with ViT-B/16 at 224 px for 5 epochs.",
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
    """Why the classes cannot be split into episodes."""
    classes = len({sample.label for sample in plan.train})
    if classes < 2 * plan.episodes:
        return f"{classes} classes are too few for {plan.episodes} episodes of at least two"
    tested = {sample.label for sample in plan.test}
    if not all(tested & {sample.label for sample in episode} for episode in split_into_episodes(plan)):
        return "an episode has no class with test pictures"
    return None


CLASS_INCREMENTAL = Experiment("class-incremental", required_trainings, run, unsupported_reason)
