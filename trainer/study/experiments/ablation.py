"""Ablation: compose the prompts of two shards by structured attention, concatenation, or averaging of parameters."""

from trainer.baselines.parameter_average import average_prompts
from trainer.study.experiments.experiment import (
    Experiment,
    composed_accuracy,
    format_percent,
    paper_column,
    trained_accuracy,
)
from trainer.study.paper import find_paper_data_set
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

SHARDS = 2


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """The paragon, one prompt on all data, a prompt for each shard, and prompts for naive concatenation."""
    shards = [training for count in _counts(plan) for training in plan.shard_trainings(count)]
    return [
        *filter(None, [plan.paragon_training]),
        plan.prompt_training(plan.train),
        *shards,
        *_concatenation_trainings(plan),
    ]


def _counts(plan: StudyPlan) -> tuple[int, ...]:
    return tuple(sorted({SHARDS, *plan.feasible_shard_counts()}))


def _concatenation_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each of two shards, trained as it is concatenated: with full attention."""
    if plan.joint_recipe is None:
        return []
    return [TrainingSpec("full", shard, plan.joint_recipe) for shard in plan.shards(SHARDS)]


def _averaged_accuracy(plan: StudyPlan, runner: StudyRunner, count: int) -> float:
    average = average_prompts([runner.prompt(training) for training in plan.shard_trainings(count)])
    return composed_accuracy(runner.prompt_logits(average, plan.test), plan.test)


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Measure each way to compose two prompts, and averaging for more of them."""
    tests, paper = plan.test, find_paper_data_set(plan.name)
    averaged = {count: _averaged_accuracy(plan, runner, count) for count in _counts(plan)}
    composed = {count: trained_accuracy(runner, plan.shard_trainings(count), tests) for count in _counts(plan)}
    accuracies: dict[str, float] = {}
    if naive := _concatenation_trainings(plan):
        accuracies["concatenate"] = composed_accuracy(runner.joint_member_logits(naive, tests), tests)
    structured = runner.joint_member_logits(plan.shard_trainings(SHARDS), tests)
    accuracies |= {
        "concatenate, prompts of structured attention": composed_accuracy(structured, tests),
        "average of parameters": averaged[SHARDS],
        "APT": composed[SHARDS],
        "one prompt on all data": trained_accuracy(runner, [plan.prompt_training(plan.train)], tests),
    }
    if plan.paragon_training is not None:
        accuracies["paragon"] = trained_accuracy(runner, [plan.paragon_training], tests)
    paper_accuracies = {}
    if paper is not None:
        paper_accuracies = {
            "concatenate": paper.concatenate,
            "average of parameters": paper.average,
            "APT": paper.shards[SHARDS],
            "paragon": paper.shards[1],
        }
    best_naive = max(share for method, share in accuracies.items() if method.startswith(("concatenate", "average")))
    return ExperimentResult(
        name="ablation",
        title="Naive composition against APT",
        question="Two prompts are trained on half of the data each. Which composition gives the best answers?",
        tables=(
            Table(
                "Accuracy on the test pictures, two shards",
                (
                    Column("composition", "text"),
                    Column("here"),
                    Column(paper_column(paper), from_paper=True),
                ),
                tuple((method, share, paper_accuracies.get(method)) for method, share in accuracies.items()),
                "Concatenate: all prompts are in one sequence with full attention. The first were trained in this way, "
                "as the paper describes its naive method; the second are APT's own prompts.",
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
                f"APT {format_percent(accuracies['APT'])}, the best naive composition {format_percent(best_naive)}",
                accuracies["APT"] > best_naive,
            ),
        ),
    )


ABLATION = Experiment("ablation", required_trainings, run)
