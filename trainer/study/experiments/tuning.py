"""Tuning: prompts of each variant against heads, biases and fully fine-tuned backbones."""

from dataclasses import replace

from alacarte.prompting.prompt.metadata import Variant
from trainer.recipe import Recipe
from trainer.schedule import RATE_BATCH
from trainer.study.experiments.experiment import Experiment, format_points, paper_column, trained_accuracy
from trainer.study.paper import find_paper_data_set
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

COMMON_RATE = 3e-4  # of AdamW for a small vision transformer in a few epochs; not scaled by the batch
PAPER_RATE_TUNING = "fine-tuning, the paper's rate"
COMMON_RATE_TUNING = "fine-tuning, a common rate"
PARAGON = "deep, full attention (the paragon)"
TOLERANCE = 0.02  # of the best fine-tuning, as the paper has it for most data sets


def _compared_trainings(plan: StudyPlan) -> dict[str, tuple[TrainingSpec, str]]:
    """The trainings by name, each with the paper's name for it."""
    train, deep = plan.train, plan.prompt_training(plan.train)

    def with_variant(variant: Variant) -> TrainingSpec:
        return replace(deep, recipe=replace(plan.recipe, variant=variant))

    trainings: dict[str, tuple[TrainingSpec, str]] = {}
    if (tuned := plan.tuned_recipe) is not None:
        trainings[PAPER_RATE_TUNING] = (TrainingSpec("fine-tuning", train, tuned), "fine-tuning")
        trainings[COMMON_RATE_TUNING] = (TrainingSpec("fine-tuning", train, _use_common_rate(tuned)), "fine-tuning")
        trainings["bias+head"] = (TrainingSpec("bias", train, tuned), "bias+head")
    trainings["head-only"] = (plan.head_training(train), "head-only")
    if plan.paragon_training is not None:
        trainings[PARAGON] = (plan.paragon_training, "deep")
    trainings["deep"] = (deep, "deep")
    trainings["deep-shared"] = (with_variant("deep-shared"), "deep-shared")
    trainings["shallow"] = (with_variant("shallow"), "shallow")
    return trainings


def _use_common_rate(recipe: Recipe) -> Recipe:
    return replace(recipe, base_rate=COMMON_RATE * RATE_BATCH / recipe.batch)


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """One training by each method on all data."""
    return [training for training, _ in _compared_trainings(plan).values()]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Measure the accuracy of each method."""
    paper = find_paper_data_set(plan.name)
    trainings = _compared_trainings(plan)
    accuracies = {name: trained_accuracy(runner, [training], plan.test) for name, (training, _) in trainings.items()}
    claims = [
        ClaimCheck(
            "Deep prompts are at least as good as shallow ones.",
            format_points(accuracies["deep"] - accuracies["shallow"]),
            accuracies["deep"] >= accuracies["shallow"],
        )
    ]
    if plan.tuned_recipe is not None:
        best_tuned = max(accuracies[PAPER_RATE_TUNING], accuracies[COMMON_RATE_TUNING])
        best_prompt = max(accuracies["deep"], accuracies.get(PARAGON, 0.0))
        claims.append(
            ClaimCheck(
                f"Prompt tuning is within {100 * TOLERANCE:.0f} points of fine-tuning.",
                f"{format_points(best_prompt - best_tuned)} against the better of the two fine-tunings",
                best_prompt >= best_tuned - TOLERANCE,
            )
        )
    return ExperimentResult(
        name="tuning",
        title="Tuning methods",
        question="One model on all data: how do prompts compare with tuning more of the backbone, or less?",
        tables=(
            Table(
                "Accuracy on the test pictures",
                (
                    Column("method", "text"),
                    Column("epochs", "count"),
                    Column("here"),
                    Column(paper_column(paper), from_paper=True),
                ),
                tuple(
                    (
                        name,
                        training.recipe.epochs,
                        accuracies[name],
                        None if paper is None else paper.tuning[paper_name],
                    )
                    for name, (training, paper_name) in trainings.items()
                ),
                "The paper's prompts in this table have full attention; ours below the paragon have structured "
                "attention. The paper's rate for fine-tuning, 1e-5 times batch / 256 in its text, is below the start "
                f"of its own warm-up and hardly changes the weights; so a second row has {COMMON_RATE:g}.",
            ),
        ),
        claims=tuple(claims),
    )


TUNING = Experiment("tuning", required_trainings, run)
