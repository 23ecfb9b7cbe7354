"""Tuning: prompts of each variant against heads, biases and whole backbones that learn."""

from dataclasses import replace

from alacarte.prompting.prompt.metadata import Variant
from trainer.recipe import Recipe
from trainer.schedule import RATE_BATCH
from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_points
from trainer.study.paper import find_paper_data_set
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

USUAL_RATE = 3e-4  # of AdamW for a small vision transformer in a few epochs; not scaled by the batch
PAPERS, USUAL, PARAGON = (
    "fine-tuning, the paper's rate",
    "fine-tuning, a usual rate",
    "deep, full attention (the paragon)",
)
COMPETITIVE = 0.02  # of the best way to tune, as the paper has it for most data sets


def _usual(recipe: Recipe) -> Recipe:
    return replace(recipe, base_rate=USUAL_RATE * RATE_BATCH / recipe.batch)


def _ways(plan: StudyPlan) -> dict[str, tuple[TrainingSpec, str]]:
    """What is compared, with the paper's name for it."""
    train, deep = plan.train, plan.prompt_training(plan.train)

    def variant(name: Variant) -> TrainingSpec:
        return replace(deep, recipe=replace(plan.recipe, variant=name))

    ways: dict[str, tuple[TrainingSpec, str]] = {}
    if plan.tuned_recipe is not None:
        ways[PAPERS] = (TrainingSpec("fine-tuning", train, plan.tuned_recipe), "fine-tuning")
        ways[USUAL] = (TrainingSpec("fine-tuning", train, _usual(plan.tuned_recipe)), "fine-tuning")
        ways["bias+head"] = (TrainingSpec("bias", train, plan.tuned_recipe), "bias+head")
    ways["head-only"] = (plan.head_training(train), "head-only")
    if plan.paragon_training is not None:
        ways[PARAGON] = (plan.paragon_training, "deep")
    ways["deep"] = (deep, "deep")
    ways["deep-shared"] = (variant("deep-shared"), "deep-shared")
    ways["shallow"] = (variant("shallow"), "shallow")
    return ways


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """One training of each way on everything."""
    return [training for training, _ in _ways(plan).values()]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """The accuracy of each way."""
    tests, paper = plan.test, find_paper_data_set(plan.name)
    ways = _ways(plan)
    found = {
        name: composed_accuracy(runner.member_logits([training], tests), tests) for name, (training, _) in ways.items()
    }
    claims = [
        ClaimCheck(
            "Deep prompts are at least as good as shallow ones.",
            format_points(found["deep"] - found["shallow"]),
            found["deep"] >= found["shallow"],
        )
    ]
    if plan.tuned_recipe is not None:
        best, deep = max(found[PAPERS], found[USUAL]), max(found["deep"], found.get(PARAGON, 0.0))
        claims.append(
            ClaimCheck(
                f"Prompt tuning is within {100 * COMPETITIVE:.0f} points of fine-tuning.",
                f"{format_points(deep - best)} against the better of the two fine-tunings",
                deep >= best - COMPETITIVE,
            )
        )
    return ExperimentResult(
        name="tuning",
        title="Ways to tune",
        question="One learner on all data: how do prompts compare with tuning more of the backbone, or less?",
        tables=(
            Table(
                "Accuracy on the test pictures",
                (
                    Column("way", "text"),
                    Column("epochs", "count"),
                    Column("here"),
                    Column("paper" if paper is None else f"paper, {paper.name}", from_paper=True),
                ),
                tuple(
                    (
                        name,
                        training.recipe.epochs,
                        found[name],
                        None if paper is None else paper.tuning[theirs],
                    )
                    for name, (training, theirs) in ways.items()
                ),
                "The paper's prompts here are those without structured attention; ours below the paragon have it. "
                "Its rate for fine-tuning, 1e-5 times batch / 256 as its text has it, lies below the start of its own "
                f"warm-up and hardly moves anything; so there is a second line with {USUAL_RATE:g}.",
            ),
        ),
        claims=tuple(claims),
    )


TUNING = Experiment("tuning", required_trainings, run)
