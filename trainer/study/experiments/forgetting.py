"""Forgetting: shards are removed one by one, without any training, and the error should grow slowly."""

import random
from itertools import pairwise

from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_points, trained_accuracy
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, Series, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

RETRAINED_TOLERANCE = 0.05  # against one prompt that is trained again on what is left
LOSS_TOLERANCE = 0.05  # with half of the shards removed: the paper's "approximately 5 % or less"


def _removal_orders(plan: StudyPlan) -> list[list[int]]:
    """The random orders in which shards are removed; always the same for one seed."""
    generator = random.Random(plan.recipe.seed)
    members = range(len(plan.shards(plan.removal_shards)))
    return [generator.sample(members, len(members)) for _ in range(plan.removal_orders)]


def _table_steps(plan: StudyPlan) -> list[int]:
    """The numbers of removed shards that the table shows."""
    count = len(plan.shards(plan.removal_shards))
    return sorted({0, count // 4, count // 2, 3 * count // 4, count - 1})


def _retrainings(plan: StudyPlan) -> dict[int, TrainingSpec]:
    """For each step of the table, one prompt on all pictures that are left in the first order of removal."""
    shards, order = plan.shards(plan.removal_shards), _removal_orders(plan)[0]
    trainings = {}
    for removed in _table_steps(plan):
        left = [sample for member in order[removed:] for sample in shards[member]]
        trainings[removed] = plan.prompt_training(tuple(sorted(left, key=lambda sample: sample.digest)))
    return trainings


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each shard, and the retrained prompts to compare with."""
    return [*plan.shard_trainings(plan.removal_shards), *_retrainings(plan).values()]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Measure the error over the number of removed shards, in several orders of removal."""
    tests = plan.test
    members = runner.member_logits(plan.shard_trainings(plan.removal_shards), tests)
    count = len(members.labels)
    full = composed_accuracy(members, tests)
    losses: list[list[float]] = [[] for _ in range(count)]  # removed -> order -> increase of the error
    for order in _removal_orders(plan):
        for removed in range(count):
            losses[removed].append(full - composed_accuracy(members.select_members(sorted(order[removed:])), tests))
    means = [sum(loss) / len(loss) for loss in losses]
    half = count // 2
    steepest = max(after - before for before, after in pairwise(means[: half + 1]))
    retrained = {removed: trained_accuracy(runner, [spec], tests) for removed, spec in _retrainings(plan).items()}
    over_retrained = (full - losses[half][0]) - retrained[half]  # both in the first order
    return ExperimentResult(
        name="forgetting",
        title="Forgetting sources",
        question=f"{count} shards are removed one by one, without any training. How fast does the error grow?",
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
                    Column("retrained: accuracy"),
                    Column("retrained: increase", "points"),
                ),
                tuple(
                    (
                        str(n),
                        count - n,
                        means[n],
                        min(losses[n]),
                        max(losses[n]),
                        full - means[n],
                        retrained[n],
                        retrained[0] - retrained[n],
                    )
                    for n in _table_steps(plan)
                ),
                f"Over {plan.removal_orders} orders of removal. Retrained is one prompt on all pictures that are left "
                "in the first of these orders: it shows how much of the loss is due to the missing pictures. The paper "
                "shows this as a figure without numbers: about 5 points or less after 10 of 20, for most data sets.",
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
                        tuple(enumerate(means)),
                        low=tuple(map(min, losses)),
                        high=tuple(map(max, losses)),
                    ),
                    Series("retrained", tuple((n, retrained[0] - retrained[n]) for n in _table_steps(plan))),
                ),
            ),
        ),
        claims=(
            ClaimCheck(
                f"With half of the shards removed, the error has grown by at most {100 * LOSS_TOLERANCE:.0f} points.",
                f"{format_points(means[half])} after {half} of {count}; "
                f"no single removal until then cost more than {format_points(steepest)} on average",
                means[half] <= LOSS_TOLERANCE,
            ),
            ClaimCheck(
                f"With half of the shards removed, the others are within {100 * RETRAINED_TOLERANCE:.0f} points of "
                "retraining on the same pictures.",
                f"{format_points(over_retrained)} after {half} of {count}",
                over_retrained >= -RETRAINED_TOLERANCE,
            ),
        ),
    )


def unsupported_reason(plan: StudyPlan) -> str | None:
    """Why the pictures cannot be split into the shards to remove."""
    if len(plan.shards(plan.removal_shards)) < plan.removal_shards:
        return f"{len(plan.train)} pictures are too few for {plan.removal_shards} shards without an empty one"
    return None


FORGETTING = Experiment("forgetting", required_trainings, run, unsupported_reason)
