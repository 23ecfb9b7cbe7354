"""Forgetting: sources leave one after the other, and the error is to grow gently."""

import random
from itertools import pairwise

from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_points
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, Series, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

NEAR = 0.05  # of one prompt, as for shards of everything
GENTLE = 0.05  # lost with half of the sources, of the paper's "approximately 5 % or less"


def _orders(plan: StudyPlan) -> list[list[int]]:
    """In which the shards are removed; always the same for one seed."""
    chance = random.Random(plan.recipe.seed)
    members = range(len(plan.shards(plan.removal_shards)))
    return [chance.sample(members, len(members)) for _ in range(plan.removal_orders)]


def _shown(plan: StudyPlan) -> list[int]:
    """How many are removed in the lines of the table."""
    count = len(plan.shards(plan.removal_shards))
    return sorted({0, count // 4, count // 2, 3 * count // 4, count - 1})


def _anew(plan: StudyPlan) -> dict[int, TrainingSpec]:
    """For each number of removed shards, one prompt on all pictures that the first order leaves."""
    shards, order = plan.shards(plan.removal_shards), _orders(plan)[0]
    left = {removed: [sample for member in order[removed:] for sample in shards[member]] for removed in _shown(plan)}
    return {
        removed: plan.prompt_training(tuple(sorted(samples, key=lambda sample: sample.digest)))
        for removed, samples in left.items()
    }


def _shards(plan: StudyPlan) -> list[TrainingSpec]:
    return [plan.prompt_training(shard) for shard in plan.shards(plan.removal_shards)]


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each shard; and, to compare, for what is left, learnt anew."""
    return [*_shards(plan), *_anew(plan).values()]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """The error over the number of removed shards, in several orders of removal."""
    tests = plan.test
    said = runner.member_logits(_shards(plan), tests)
    members = list(range(len(said.labels)))
    lost: list[list[float]] = [[] for _ in members]  # removed -> order -> increase of the error
    full = composed_accuracy(said, tests)
    for order in _orders(plan):
        for removed in members:
            lost[removed].append(full - composed_accuracy(said.select_members(sorted(order[removed:])), tests))
    means = [sum(each) / len(each) for each in lost]
    half = len(members) // 2
    steepest = max(after - before for before, after in pairwise(means[: half + 1]))
    anew = {
        removed: composed_accuracy(runner.member_logits([each], tests), tests) for removed, each in _anew(plan).items()
    }
    ahead = (full - lost[half][0]) - anew[half]  # by the same order
    return ExperimentResult(
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
                    Column("learnt anew: accuracy"),
                    Column("learnt anew: grows by", "points"),
                ),
                tuple(
                    (
                        str(n),
                        len(members) - n,
                        means[n],
                        min(lost[n]),
                        max(lost[n]),
                        full - means[n],
                        anew[n],
                        anew[0] - anew[n],
                    )
                    for n in _shown(plan)
                ),
                f"Over {plan.removal_orders} orders of removal. Learnt anew is one prompt on all pictures that the "
                "first of these orders leaves: so much one prompt loses with the pictures. The paper shows "
                "this as a figure without numbers: about 5 points or less after 10 of 20, for most data sets.",
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
                        f"mean of {plan.removal_orders} orders",
                        tuple((n, means[n]) for n in members),
                        low=tuple(min(each) for each in lost),
                        high=tuple(max(each) for each in lost),
                    ),
                    Series("learnt anew", tuple((float(n), anew[0] - anew[n]) for n in _shown(plan))),
                ),
            ),
        ),
        claims=(
            ClaimCheck(
                f"With half of the sources forgotten the error has grown by at most {100 * GENTLE:.0f} points.",
                f"{format_points(means[half])} after {half} of {len(members)}; "
                f"no single removal until then cost more than {format_points(steepest)} on average",
                means[half] <= GENTLE,
            ),
            ClaimCheck(
                f"What is left of half is within {100 * NEAR:.0f} points of learning anew from the same pictures.",
                f"{format_points(ahead)} after {half} of {len(members)}",
                ahead >= -NEAR,
            ),
        ),
    )


def unsupported_reason(plan: StudyPlan) -> str | None:
    """Why there is nothing to remove one by one."""
    if len(plan.shards(plan.removal_shards)) < plan.removal_shards:
        return f"{len(plan.train)} pictures are too few for {plan.removal_shards} shards, of which none is empty"
    return None


FORGETTING = Experiment("forgetting", required_trainings, run, unsupported_reason)
