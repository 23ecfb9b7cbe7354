"""Shards: how much is lost when the data is split, and how much composing gives back."""

from trainer.study.experiments.experiment import (
    Experiment,
    composed_accuracy,
    format_percent,
    format_points,
    mean_member_accuracy,
)
from trainer.study.paper import find_paper_data_set
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, Series, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

CLOSE = 0.05  # to the paragon, up to MANY shards
MANY = 20


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """The paragon, one prompt on everything, and a prompt for each shard of each split."""
    split = [plan.prompt_training(shard) for count in plan.feasible_shard_counts() for shard in plan.shards(count)]
    return [*filter(None, [plan.paragon_training]), plan.prompt_training(plan.train), *split]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Composed, single and lost accuracy over the number of shards."""
    tests, paper = plan.test, find_paper_data_set(plan.name)
    whole = composed_accuracy(runner.member_logits([plan.prompt_training(plan.train)], tests), tests)
    paragon = (
        None
        if plan.paragon_training is None
        else composed_accuracy(runner.member_logits([plan.paragon_training], tests), tests)
    )
    best = max(whole, paragon or 0.0)
    composed, single = {1: whole}, {1: whole}
    for count in plan.feasible_shard_counts():
        said = runner.member_logits([plan.prompt_training(shard) for shard in plan.shards(count)], tests)
        composed[count], single[count] = composed_accuracy(said, tests), mean_member_accuracy(said, tests)
    theirs, tuned = ({}, {}) if paper is None else (paper.shards, paper.fine_tuned_shards)
    counts = list(composed)
    rows = tuple(
        (
            str(count),
            len(plan.train) / count,
            composed[count],
            composed[count] - best,
            single[count],
            composed[count] - single[count],
            theirs.get(count) if count > 1 else None,
            theirs[count] - theirs[1] if count > 1 and count in theirs else None,
            tuned.get(count),
        )
        for count in counts
    )
    name = "paper" if paper is None else f"paper, {paper.name}"
    near = {count: share for count, share in composed.items() if 1 < count <= MANY}
    farthest = min(near, key=lambda count: near[count]) if near else 1
    series = [Series("composed", tuple((count, composed[count]) for count in counts))]
    series.append(Series("single shards, mean", tuple((count, single[count]) for count in counts)))
    if theirs:
        series.append(Series(name, tuple(sorted((float(n), share) for n, share in theirs.items())), from_paper=True))
    return ExperimentResult(
        name="shards",
        title="Shards against the paragon",
        question="The data is split at random into shards, and a prompt is trained on each by itself. How much is lost "
        "against one prompt on everything, and how much better is the composed answer than that of one shard?",
        tables=(
            Table(
                "Accuracy on the test pictures",
                (
                    Column("shards", "text"),
                    Column("pictures in each", "count"),
                    Column("composed"),
                    Column("against the best on everything", "points"),
                    Column("one shard alone"),
                    Column("gain of composing", "points"),
                    Column(f"{name}: composed", from_paper=True),
                    Column(f"{name}: against paragon", "points", from_paper=True),
                    Column(f"{name}: fine-tuned models instead", from_paper=True),
                ),
                (
                    *rows[:1],
                    ("paragon", len(plan.train), paragon, _minus(paragon, best), None, None, theirs.get(1), None, None),
                    *rows[1:],
                ),
                "1 shard is one prompt on everything with structured attention. The paragon is the paper's: one prompt "
                f"on everything, every token attending every other{_epochs(plan)}.",
            ),
        ),
        plots=(
            Plot("Accuracy over the number of shards", "shards", "accuracy", "share", tuple(series), has_log_x=True),
            Plot(
                "Gain of composing",
                "shards",
                "composed minus one shard alone",
                "points",
                (Series("gain", tuple((count, composed[count] - single[count]) for count in counts)),),
                has_log_x=True,
            ),
        ),
        claims=(
            ClaimCheck(
                f"Up to {MANY} shards composed prompts are within {100 * CLOSE:.0f} points of one on everything.",
                f"at worst {format_points(near[farthest] - best)} ({format_percent(near[farthest])} with {farthest} "
                f"shards, {format_percent(best)} on everything)",
                near[farthest] >= best - CLOSE,
            ),
        )
        if near
        else (),
    )


def _minus(one: float | None, other: float) -> float | None:
    return None if one is None else one - other


def _epochs(plan: StudyPlan) -> str:
    if plan.joint_recipe is None:
        return ", and was left out here"
    return f", here for {plan.joint_recipe.epochs} epochs"


SHARDS = Experiment("shards", required_trainings, run)
