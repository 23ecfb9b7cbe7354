"""Ablation: two shards, composed by structured attention, by concatenation, and by averaging parameters."""

from trainer.baselines.parameter_average import average_prompts
from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_percent
from trainer.study.paper import find_paper_data_set
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

SHARDS = 2


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """The paragon; and a prompt for each shard, with structured attention and, of two shards, without."""
    shards = [shard for count in _counts(plan) for shard in plan.shards(count)]
    structured = [plan.prompt_training(plan.train), *(plan.prompt_training(shard) for shard in shards)]
    return [*filter(None, [plan.paragon_training]), *structured, *_naive(plan)]


def _counts(plan: StudyPlan) -> tuple[int, ...]:
    return tuple(sorted({SHARDS, *plan.feasible_shard_counts()}))


def _averaged(plan: StudyPlan, runner: StudyRunner, count: int) -> float:
    """The accuracy of the one prompt halfway between those of so many shards."""
    average = average_prompts([runner.prompt(plan.prompt_training(shard)) for shard in plan.shards(count)])
    return composed_accuracy(runner.prompt_logits(average, plan.test), plan.test)


def _composed(plan: StudyPlan, runner: StudyRunner, count: int) -> float:
    return composed_accuracy(
        runner.member_logits([plan.prompt_training(shard) for shard in plan.shards(count)], plan.test), plan.test
    )


def _naive(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each shard that learns as it is concatenated: every token attending every other."""
    return (
        []
        if plan.joint_recipe is None
        else [TrainingSpec("full", shard, plan.joint_recipe) for shard in plan.shards(SHARDS)]
    )


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """The accuracy of each way to make one answer of two prompts."""
    tests, paper = plan.test, find_paper_data_set(plan.name)
    shards = plan.shards(SHARDS)
    structured = [plan.prompt_training(shard) for shard in shards]
    averaged = {count: _averaged(plan, runner, count) for count in _counts(plan)}
    composed = {count: _composed(plan, runner, count) for count in _counts(plan)}
    found: dict[str, float] = {}
    if naive := _naive(plan):
        found["concatenate"] = composed_accuracy(runner.joint_member_logits(naive, tests), tests)
    found |= {
        "concatenate, prompts of structured attention": composed_accuracy(
            runner.joint_member_logits(structured, tests), tests
        ),
        "average of parameters": averaged[SHARDS],
        "APT": composed[SHARDS],
        "one prompt on everything": composed_accuracy(
            runner.member_logits([plan.prompt_training(plan.train)], tests), tests
        ),
    }
    if plan.paragon_training is not None:
        found["paragon"] = composed_accuracy(runner.member_logits([plan.paragon_training], tests), tests)
    theirs = {}
    if paper is not None:
        theirs = {
            "concatenate": paper.concatenate,
            "average of parameters": paper.average,
            "APT": paper.shards[SHARDS],
            "paragon": paper.shards[1],
        }
    naive_best = max(share for way, share in found.items() if way.startswith(("concatenate", "average")))
    return ExperimentResult(
        name="ablation",
        title="Naive composition against APT",
        question="Two prompts, each trained on half of the data: what is the best way to make one answer of them?",
        tables=(
            Table(
                "Accuracy on the test pictures, two shards",
                (
                    Column("way", "text"),
                    Column("here"),
                    Column("paper" if paper is None else f"paper, {paper.name}", from_paper=True),
                ),
                tuple((way, share, theirs.get(way)) for way, share in found.items()),
                "Concatenate: prompts in one sequence, where all attend all. The first were trained so, as the paper's "
                "naive method is described; the second are APT's own prompts.",
            ),
            Table(
                "Averaging parameters, with more shards",
                (
                    Column("shards", "text"),
                    Column("average of parameters"),
                    Column("APT"),
                    Column("APT over averaging", "points"),
                ),
                tuple((str(n), averaged[n], composed[n], composed[n] - averaged[n]) for n in averaged),
                "The paper averages two prompts only.",
            ),
        ),
        claims=(
            ClaimCheck(
                "APT is above concatenation and above averaging.",
                f"APT {format_percent(found['APT'])}, the best naive way {format_percent(naive_best)}",
                found["APT"] > naive_best,
            ),
        ),
    )


ABLATION = Experiment("ablation", required_trainings, run)
