"""A study from beginning to end: what all experiments want is trained once, then each tells what it found."""

from collections.abc import Sequence

from trainer.errors import TrainingError
from trainer.study import paper
from trainer.study.experiments.catalog import EXPERIMENTS
from trainer.study.plan import Plan
from trainer.study.results import Finding, StudyReport
from trainer.study.runner import Laboratory
from trainer.study.train_prompts import Training


class ExperimentUnknown(TrainingError):
    """There is no experiment of that name."""


class ExperimentImpossible(TrainingError):
    """The data does not fit the question."""


def choose(names: Sequence[str], plans: Sequence[Plan]) -> tuple[list[str], dict[str, str]]:
    """The experiments to carry out, and why others of "all" make no sense here; one that was named must make sense.

    Plans that differ in their seed are carried out alike: what one of them has no sense for is left out of all.
    """
    unknown = [name for name in names if name != "all" and name not in EXPERIMENTS]
    if unknown:
        raise ExperimentUnknown(f"no experiment {unknown[0]!r}: use all, or some of {', '.join(EXPERIMENTS)}")
    reasons = {
        name: reason
        for plan in plans
        for name, each in EXPERIMENTS.items()
        if (reason := each.cannot(plan)) is not None
    }
    named = [name for name in EXPERIMENTS if name in names]
    for name in named:
        if name in reasons:
            raise ExperimentImpossible(f"{name}: {reasons[name]}")
    if "all" not in names:
        return named, {}
    usual = {name for name, each in EXPERIMENTS.items() if each.is_in_all}
    chosen = [name for name in EXPERIMENTS if name in named or (name in usual and name not in reasons)]
    return chosen, {name: reason for name, reason in reasons.items() if name in usual}


def wanted_by(names: Sequence[str], plan: Plan) -> list[Training]:
    """Every training that these experiments want, as often as they do."""
    return [training for name in names for training in EXPERIMENTS[name].wants(plan)]


def conduct(
    names: Sequence[str], plan: Plan, laboratory: Laboratory, setting: Sequence[tuple[str, str]], cut: Sequence[str]
) -> StudyReport:
    """Train what is missing, then let each experiment tell; `cut` is what the reader should know was left out."""
    wanted = wanted_by(names, plan)
    laboratory.train(laboratory.missing(wanted, plan.test), plan.test)
    laboratory.say("asking about the test pictures")
    laboratory.ask(wanted, plan.test)
    findings: list[Finding] = []
    for name in names:
        laboratory.say(f"looking at {name}")
        findings.append(EXPERIMENTS[name].find(plan, laboratory))
    return StudyReport(
        title=f"À-la-carte Prompt Tuning on {plan.name}",
        setting=(*setting, ("the paper's setting", paper.SETTING), *(("left out", each) for each in cut)),
        findings=tuple(findings),
    )
