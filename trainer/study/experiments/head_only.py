"""Head-only ensembles: are prompts better than linear heads on the frozen backbone?"""

from trainer.study import paper
from trainer.study.experiments.experiment import Experiment, format_points, trained_accuracy
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Plot, Series, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec


def _counts(plan: StudyPlan) -> tuple[int, ...]:
    return (1, *plan.feasible_shard_counts())


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A head and a prompt for each shard of each split."""
    shards = [shard for count in _counts(plan) for shard in plan.shards(count)]
    return [training for shard in shards for training in (plan.head_training(shard), plan.prompt_training(shard))]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Measure both ensembles over the number of shards."""
    heads: dict[int, float] = {}
    prompts: dict[int, float] = {}
    for count in _counts(plan):
        shards = plan.shards(count)
        heads[count] = trained_accuracy(runner, [plan.head_training(shard) for shard in shards], plan.test)
        prompts[count] = trained_accuracy(runner, plan.shard_trainings(count), plan.test)
    gaps = {count: prompts[count] - heads[count] for count in heads}
    worst = min(gaps, key=lambda count: gaps[count])
    return ExperimentResult(
        name="head-only",
        title="Prompts against heads alone",
        question="A linear head on the frozen class token of each shard needs no prompt at all. Is APT better?",
        tables=(
            Table(
                "Accuracy on the test pictures",
                (
                    Column("shards", "text"),
                    Column("heads alone"),
                    Column("APT"),
                    Column("APT over heads", "points"),
                    Column("paper, in-domain mean: heads alone", from_paper=True),
                    Column("paper, in-domain mean: APT", from_paper=True),
                ),
                tuple(
                    (
                        str(count),
                        heads[count],
                        prompts[count],
                        gaps[count],
                        paper.IN_DOMAIN_HEADS.get(count),
                        paper.IN_DOMAIN_PROMPTS.get(count),
                    )
                    for count in heads
                ),
                "The paper gives head-only ensembles as means over five data sets only.",
            ),
        ),
        plots=(
            Plot(
                "Accuracy over the number of shards",
                "shards",
                "accuracy",
                "share",
                (
                    Series("APT", tuple(sorted((float(n), share) for n, share in prompts.items()))),
                    Series("heads alone", tuple(sorted((float(n), share) for n, share in heads.items()))),
                ),
                has_log_x=True,
            ),
        ),
        claims=(
            ClaimCheck(
                "APT is above the head-only ensemble for every number of shards.",
                f"at worst {format_points(gaps[worst])}, with {worst} {'shard' if worst == 1 else 'shards'}",
                gaps[worst] > 0,
            ),
        ),
    )


HEAD_ONLY = Experiment("head-only", required_trainings, run)
