"""Vote: averaging probabilities against a majority vote."""

from trainer.study.experiments.experiment import Experiment, in_points, right
from trainer.study.paper import counterpart
from trainer.study.plan import Plan
from trainer.study.results import Claim, Column, Finding, Table
from trainer.study.runner import Laboratory
from trainer.study.train_prompts import Training


def wants(plan: Plan) -> list[Training]:
    """A prompt for each shard of each split."""
    return [plan.training(shard) for count in plan.possible_counts() for shard in plan.shards(count)]


def find(plan: Plan, laboratory: Laboratory) -> Finding:
    """Both compositions of the same members."""
    tests, paper = plan.test, counterpart(plan.name)
    rows: list[tuple[str, float, float, float, float | None]] = []
    for count in plan.possible_counts():
        said = laboratory.opinions([plan.training(shard) for shard in plan.shards(count)], tests)
        average, vote = right(said, tests), right(said, tests, "vote")
        theirs = None if paper is None else paper.over_vote.get(count)
        rows.append((str(count), average, vote, average - vote, theirs))
    least = min(row[3] for row in rows)
    return Finding(
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
                        is_papers=True,
                    ),
                ),
                tuple(rows),
                "Equal votes are decided by the mean probability, which the paper's vote may not do.",
            ),
        ),
        claims=(
            Claim(
                "Averaging is at least as good as voting for every number of shards.",
                f"at worst {in_points(least)}",
                least >= 0,
            ),
        ),
    )


def cannot(plan: Plan) -> str | None:
    """Why nobody could vote."""
    return None if plan.possible_counts() else f"{len(plan.train)} pictures are too few for shards"


VOTE = Experiment("vote", wants, find, cannot)
