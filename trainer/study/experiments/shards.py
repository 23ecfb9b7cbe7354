"""Shards: how much accuracy splitting the data costs, and how much composition restores."""

from trainer.study.experiments.experiment import (
    Experiment,
    composed_accuracy,
    format_percent,
    format_points,
    mean_member_accuracy,
    paper_column,
    trained_accuracy,
)
from trainer.study.paper import find_paper_data_set
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, Series, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

TOLERANCE = 0.05  # of composed prompts against one on all data
MOST_SHARDS = 20  # for which the tolerance is claimed


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """The paragon, one prompt on all data, and a prompt for each shard of each split."""
    shards = [training for count in plan.feasible_shard_counts() for training in plan.shard_trainings(count)]
    return [*filter(None, [plan.paragon_training]), plan.prompt_training(plan.train), *shards]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Measure composed and single accuracy over the number of shards."""
    tests, paper = plan.test, find_paper_data_set(plan.name)
    whole = trained_accuracy(runner, [plan.prompt_training(plan.train)], tests)
    paragon = None if plan.paragon_training is None else trained_accuracy(runner, [plan.paragon_training], tests)
    best = max(whole, paragon or 0.0)
    composed, single = {1: whole}, {1: whole}
    for count in plan.feasible_shard_counts():
        members = runner.member_logits(plan.shard_trainings(count), tests)
        composed[count], single[count] = composed_accuracy(members, tests), mean_member_accuracy(members, tests)
    paper_shards, paper_tuned = ({}, {}) if paper is None else (paper.shards, paper.fine_tuned_shards)
    rows = tuple(
        (
            str(count),
            len(plan.train) / count,
            composed[count],
            composed[count] - best,
            single[count],
            composed[count] - single[count],
            paper_shards.get(count) if count > 1 else None,
            paper_shards[count] - paper_shards[1] if count > 1 and count in paper_shards else None,
            paper_tuned.get(count),
        )
        for count in composed
    )
    paragon_row = (
        "paragon",
        len(plan.train),
        paragon,
        None if paragon is None else paragon - best,
        None,
        None,
        paper_shards.get(1),
        None,
        None,
    )
    series = [
        Series("composed", tuple(composed.items())),
        Series("single shards, mean", tuple(single.items())),
    ]
    if paper_shards:
        series.append(Series(paper_column(paper), tuple(sorted(paper_shards.items())), from_paper=True))
    return ExperimentResult(
        name="shards",
        title="Shards against the paragon",
        question="The data is split at random into shards, and a prompt is trained on each. How much accuracy is lost "
        "against one prompt on all data, and how much better are composed prompts than the prompt of one shard?",
        tables=(
            Table(
                "Accuracy on the test pictures",
                (
                    Column("shards", "text"),
                    Column("pictures in each", "count"),
                    Column("composed"),
                    Column("against the best on all data", "points"),
                    Column("one shard alone"),
                    Column("gain of composing", "points"),
                    Column(paper_column(paper, "composed"), from_paper=True),
                    Column(paper_column(paper, "against paragon"), "points", from_paper=True),
                    Column(paper_column(paper, "fine-tuned models instead"), from_paper=True),
                ),
                (*rows[:1], paragon_row, *rows[1:]),
                "1 shard is one prompt on all data with structured attention. The paragon is the paper's: one prompt "
                f"on all data with full attention, here {_describe_paragon(plan)}.",
            ),
        ),
        plots=(
            Plot("Accuracy over the number of shards", "shards", "accuracy", "share", tuple(series), has_log_x=True),
            Plot(
                "Gain of composing",
                "shards",
                "composed minus one shard alone",
                "points",
                (Series("gain", tuple((count, composed[count] - single[count]) for count in composed)),),
                has_log_x=True,
            ),
        ),
        claims=_check_claims(composed, best),
    )


def _check_claims(composed: dict[int, float], best: float) -> tuple[ClaimCheck, ...]:
    claimed = {count: share for count, share in composed.items() if 1 < count <= MOST_SHARDS}
    if not claimed:
        return ()
    worst = min(claimed, key=lambda count: claimed[count])
    return (
        ClaimCheck(
            f"Up to {MOST_SHARDS} shards, composed prompts are within {100 * TOLERANCE:.0f} points of one on all data.",
            f"at worst {format_points(claimed[worst] - best)} ({format_percent(claimed[worst])} with {worst} shards, "
            f"{format_percent(best)} on all data)",
            claimed[worst] >= best - TOLERANCE,
        ),
    )


def _describe_paragon(plan: StudyPlan) -> str:
    return "skipped" if plan.joint_recipe is None else f"for {plan.joint_recipe.epochs} epochs"


SHARDS = Experiment("shards", required_trainings, run)
