"""Vote: averaging probabilities against a majority vote."""

from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_points, paper_column
from trainer.study.paper import find_paper_data_set
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each shard of each split."""
    return [training for count in plan.feasible_shard_counts() for training in plan.shard_trainings(count)]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Measure both compositions of the same members."""
    tests, paper = plan.test, find_paper_data_set(plan.name)
    rows: list[tuple[str, float, float, float, float | None]] = []
    for count in plan.feasible_shard_counts():
        members = runner.member_logits(plan.shard_trainings(count), tests)
        average, vote = composed_accuracy(members, tests), composed_accuracy(members, tests, "vote")
        rows.append((str(count), average, vote, average - vote, None if paper is None else paper.over_vote.get(count)))
    least = min(row[3] for row in rows)
    paper_title = paper_column(paper, "average over vote")
    return ExperimentResult(
        name="vote",
        title="Average against majority vote",
        question="Members can average their probabilities, or vote for one label each. Which is better?",
        tables=(
            Table(
                "Accuracy on the test pictures",
                (
                    Column("shards", "text"),
                    Column("average"),
                    Column("vote"),
                    Column("average over vote", "points"),
                    Column(paper_title, "points", from_paper=True),
                ),
                tuple(rows),
                "Here the mean probability decides between equal votes; the paper does not say how it does.",
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
    """Why there are no shards to vote."""
    return None if plan.feasible_shard_counts() else f"{len(plan.train)} pictures are too few for shards"


VOTE = Experiment("vote", required_trainings, run, unsupported_reason)
