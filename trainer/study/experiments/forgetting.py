"""Forgetting: sources leave one after the other, and the error is to grow gently."""

import random
from itertools import pairwise

from trainer.study.experiments.experiment import Experiment, in_points, right
from trainer.study.findings import Claim, Column, Finding, Plot, Series, Table
from trainer.study.laboratory import Laboratory
from trainer.study.plan import Plan
from trainer.study.training import Training

GENTLE = 0.05  # lost with half of the sources, of the paper's "approximately 5 % or less"


def wants(plan: Plan) -> list[Training]:
    """A prompt for each shard."""
    return [plan.training(shard) for shard in plan.shards(plan.forgetful)]


def find(plan: Plan, laboratory: Laboratory) -> Finding:
    """The error over the number of removed shards, in several orders of removal."""
    tests = plan.test
    said = laboratory.opinions(wants(plan), tests)
    members = list(range(len(said.labels)))
    chance = random.Random(plan.recipe.seed)
    lost: list[list[float]] = [[] for _ in members]  # removed -> order -> increase of the error
    full = right(said, tests)
    for _ in range(plan.orders):
        order = chance.sample(members, len(members))
        for removed in members:
            lost[removed].append(full - right(said.only(sorted(order[removed:])), tests))
    means = [sum(each) / len(each) for each in lost]
    half = len(members) // 2
    steepest = max(after - before for before, after in pairwise(means[: half + 1]))
    shown = sorted({0, len(members) // 4, half, 3 * len(members) // 4, len(members) - 1})
    return Finding(
        name="forgetting",
        title="Forgetting sources",
        question=f"Of {len(members)} shards one after the other is removed, without any training. "
        "How fast does the error grow?",
        tables=(
            Table(
                "Increase of the error",
                (
                    Column("removed", "text"),
                    Column("left", "count"),
                    Column("mean", "points"),
                    Column("least", "points"),
                    Column("most", "points"),
                    Column("accuracy"),
                ),
                tuple((str(n), len(members) - n, means[n], min(lost[n]), max(lost[n]), full - means[n]) for n in shown),
                f"Over {plan.orders} orders of removal. The paper shows this as a figure without numbers: "
                "about 5 points or less after 10 of 20, for most data sets.",
            ),
        ),
        plots=(
            Plot(
                "Increase of the error",
                "removed shards",
                "points of error",
                "points",
                (
                    Series(
                        f"mean of {plan.orders} orders",
                        tuple((n, means[n]) for n in members),
                        low=tuple(min(each) for each in lost),
                        high=tuple(max(each) for each in lost),
                    ),
                ),
            ),
        ),
        claims=(
            Claim(
                f"With half of the sources forgotten the error has grown by at most {100 * GENTLE:.0f} points.",
                f"{in_points(means[half])} after {half} of {len(members)}; "
                f"no single removal until then cost more than {in_points(steepest)} on average",
                means[half] <= GENTLE,
            ),
        ),
    )


def cannot(plan: Plan) -> str | None:
    """Why there is nothing to remove one by one."""
    if len(plan.train) < 2 * plan.forgetful:
        return f"{len(plan.train)} pictures are too few for {plan.forgetful} shards"
    return None


FORGETTING = Experiment("forgetting", wants, find, cannot)
