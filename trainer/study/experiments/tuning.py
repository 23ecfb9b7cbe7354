"""Tuning: prompts of each variant against heads, biases and whole backbones that learn."""

from dataclasses import replace

from alacarte.prompting.prompt.tensors import Variant
from trainer.recipe import RATE_BATCH, Recipe
from trainer.study.experiments.experiment import Experiment, in_points, right
from trainer.study.paper import counterpart
from trainer.study.plan import Plan
from trainer.study.results import Claim, Column, Finding, Table
from trainer.study.runner import Laboratory
from trainer.study.train_prompts import Training

USUAL_RATE = 3e-4  # of AdamW for a small vision transformer in a few epochs; not scaled by the batch
PAPERS, USUAL, PARAGON = (
    "fine-tuning, the paper's rate",
    "fine-tuning, a usual rate",
    "deep, full attention (the paragon)",
)
COMPETITIVE = 0.02  # of the best way to tune, as the paper has it for most data sets


def _usual(recipe: Recipe) -> Recipe:
    return replace(recipe, base_rate=USUAL_RATE * RATE_BATCH / recipe.batch)


def _ways(plan: Plan) -> dict[str, tuple[Training, str]]:
    """What is compared, with the paper's name for it."""
    train, deep = plan.train, plan.training(plan.train)

    def variant(name: Variant) -> Training:
        return replace(deep, recipe=replace(plan.recipe, variant=name))

    ways: dict[str, tuple[Training, str]] = {}
    if plan.tuned is not None:
        ways[PAPERS] = (Training("fine-tuning", train, plan.tuned), "fine-tuning")
        ways[USUAL] = (Training("fine-tuning", train, _usual(plan.tuned)), "fine-tuning")
        ways["bias+head"] = (Training("bias", train, plan.tuned), "bias+head")
    ways["head-only"] = (plan.head(train), "head-only")
    if plan.paragon is not None:
        ways[PARAGON] = (plan.paragon, "deep")
    ways["deep"] = (deep, "deep")
    ways["deep-shared"] = (variant("deep-shared"), "deep-shared")
    ways["shallow"] = (variant("shallow"), "shallow")
    return ways


def wants(plan: Plan) -> list[Training]:
    """One training of each way on everything."""
    return [training for training, _ in _ways(plan).values()]


def find(plan: Plan, laboratory: Laboratory) -> Finding:
    """The accuracy of each way."""
    tests, paper = plan.test, counterpart(plan.name)
    ways = _ways(plan)
    found = {name: right(laboratory.opinions([training], tests), tests) for name, (training, _) in ways.items()}
    claims = [
        Claim(
            "Deep prompts are at least as good as shallow ones.",
            in_points(found["deep"] - found["shallow"]),
            found["deep"] >= found["shallow"],
        )
    ]
    if plan.tuned is not None:
        best, deep = max(found[PAPERS], found[USUAL]), max(found["deep"], found.get(PARAGON, 0.0))
        claims.append(
            Claim(
                f"Prompt tuning is within {100 * COMPETITIVE:.0f} points of fine-tuning.",
                f"{in_points(deep - best)} against the better of the two fine-tunings",
                deep >= best - COMPETITIVE,
            )
        )
    return Finding(
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
                    Column("paper" if paper is None else f"paper, {paper.name}", is_papers=True),
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


TUNING = Experiment("tuning", wants, find)
