"""A study from start to end: select experiments, train what they require once, then run each of them."""

from collections.abc import Sequence

from trainer.errors import TrainingError
from trainer.study import paper
from trainer.study.experiments.ablation import ABLATION
from trainer.study.experiments.class_incremental import CLASS_INCREMENTAL
from trainer.study.experiments.cost import COST
from trainer.study.experiments.domain_incremental import DOMAIN_INCREMENTAL
from trainer.study.experiments.experiment import Experiment
from trainer.study.experiments.forgetting import FORGETTING
from trainer.study.experiments.head_only import HEAD_ONLY
from trainer.study.experiments.recipes import RECIPE_COMPARISON
from trainer.study.experiments.shards import SHARDS
from trainer.study.experiments.tuning import TUNING
from trainer.study.experiments.vote import VOTE
from trainer.study.plan import StudyPlan
from trainer.study.results import ExperimentResult, StudyReport
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

# By name, in the order of the report.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        SHARDS,
        FORGETTING,
        ABLATION,
        TUNING,
        HEAD_ONLY,
        VOTE,
        CLASS_INCREMENTAL,
        DOMAIN_INCREMENTAL,
        COST,
        RECIPE_COMPARISON,
    )
}


class ExperimentNotFound(TrainingError):
    """No experiment has the requested name."""


class ExperimentUnsupported(TrainingError):
    """The data does not fit an experiment that was requested by name."""


def select_experiments(names: Sequence[str], plans: Sequence[StudyPlan]) -> tuple[list[str], dict[str, str]]:
    """Return the experiments to run, and why others of "all" are skipped; raise if a named one cannot run.

    The plans differ in their seed only; an experiment that one of them does not support is skipped for all.
    """
    unknown = [name for name in names if name != "all" and name not in EXPERIMENTS]
    if unknown:
        raise ExperimentNotFound(f"no experiment {unknown[0]!r}: use all, or some of {', '.join(EXPERIMENTS)}")
    reasons = {
        name: reason
        for plan in plans
        for name, experiment in EXPERIMENTS.items()
        if (reason := experiment.unsupported_reason(plan)) is not None
    }
    named = [name for name in EXPERIMENTS if name in names]
    for name in named:
        if name in reasons:
            raise ExperimentUnsupported(f"{name}: {reasons[name]}")
    if "all" not in names:
        return named, {}
    in_all = {name for name, experiment in EXPERIMENTS.items() if experiment.is_in_all}
    selected = [name for name in EXPERIMENTS if name in named or (name in in_all and name not in reasons)]
    return selected, {name: reason for name, reason in reasons.items() if name in in_all}


def required_trainings(names: Sequence[str], plan: StudyPlan) -> list[TrainingSpec]:
    """Return every training that these experiments require, with duplicates."""
    return [training for name in names for training in EXPERIMENTS[name].required_trainings(plan)]


def run_study(
    names: Sequence[str],
    plan: StudyPlan,
    runner: StudyRunner,
    setup: Sequence[tuple[str, str]],
    skipped: Sequence[str],
) -> StudyReport:
    """Train what is missing, then run each experiment; `skipped` names what the reader should know was left out."""
    trainings = required_trainings(names, plan)
    runner.train(runner.filter_missing(trainings, plan.test), plan.test)
    runner.log("predicting the test pictures")
    runner.compute_logits(trainings, plan.test)
    results: list[ExperimentResult] = []
    for name in names:
        runner.log(f"evaluating {name}")
        results.append(EXPERIMENTS[name].run(plan, runner))
    return StudyReport(
        title=f"À-la-carte Prompt Tuning on {plan.name}",
        setup=(*setup, ("paper's setup", paper.SETUP), *(("skipped", reason) for reason in skipped)),
        experiments=tuple(results),
    )
