"""Vote: averaging probabilities against a majority vote."""

from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_points
from trainer.study.paper import find_paper_data_set
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each shard of each split."""
    return [plan.prompt_training(shard) for count in plan.feasible_shard_counts() for shard in plan.shards(count)]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Both compositions of the same members."""
    tests, paper = plan.test, find_paper_data_set(plan.name)
    rows: list[tuple[str, float, float, float, float | None]] = []
    for count in plan.feasible_shard_counts():
        said = runner.member_logits([plan.prompt_training(shard) for shard in plan.shards(count)], tests)
        average, vote = composed_accuracy(said, tests), composed_accuracy(said, tests, "vote")
        theirs = None if paper is None else paper.over_vote.get(count)
        rows.append((str(count), average, vote, average - vote, theirs))
    least = min(row[3] for row in rows)
    return ExperimentResult(
        name="vote",
        title="Average against majority vote",
        question="Members may average their probabilities, or vote for one label each. Which is better?",
        tables=(
            Table(
                "Accuracy on the test pictures",
                (
                    Column("shards", "text"),
                    Column("average"),
                    Column("vote"),
                    Column("average over vote", "points"),
                    Column(
                        "paper: average over vote" if paper is None else f"paper, {paper.name}: average over vote",
                        "points",
                        from_paper=True,
                    ),
                ),
                tuple(rows),
                "Equal votes are decided by the mean probability, which the paper's vote may not do.",
            ),
        ),
        claims=(
            ClaimCheck(
                "Averaging is at least as good as voting for every number of shards.",
                f"at worst {format_points(least)}",
                least >= 0,
            ),
        ),
    )


def unsupported_reason(plan: StudyPlan) -> str | None:
    """Why nobody could vote."""
    return None if plan.feasible_shard_counts() else f"{len(plan.train)} pictures are too few for shards"


VOTE = Experiment("vote", required_trainings, run, unsupported_reason)
