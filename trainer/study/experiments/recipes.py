"""Recipes: which one learns best, measured on pictures held out from training; the test set has no say."""

from dataclasses import replace

from trainer.recipe import Recipe
from trainer.recipes import RECIPES
from trainer.study.experiments.experiment import Experiment, in_percent, mean_of_each, right
from trainer.study.findings import Claim, Column, Finding, Table
from trainer.study.laboratory import Laboratory
from trainer.study.plan import Part, Plan
from trainer.study.reading import set_apart
from trainer.study.training import Training

COUNTS = (5, 20)
RATES = (0.01, 0.03, 0.1)  # the last is the paper's
SMOOTHINGS = (0.0, 0.1, 0.2)  # the first is the paper's
AS_IT_IS = "as it is"


def candidates(recipe: Recipe) -> dict[str, Recipe]:
    """The recipe of the plan, and others that differ from it in one thing."""
    found = {f"rate {rate:g}": replace(recipe, base_rate=rate) for rate in RATES}
    found |= {f"label smoothing {each:g}": replace(recipe, label_smoothing=each) for each in SMOOTHINGS}
    found["twice the epochs"] = replace(recipe, epochs=2 * recipe.epochs)
    found["a quarter of the batch"] = replace(recipe, batch=max(1, recipe.batch // 4))
    if recipe.augment == "none":
        found["four augmented views"] = replace(recipe, augment="randaugment", views=4)
    else:
        found["no augmentation"] = replace(recipe, augment="none", views=None)
    return {AS_IT_IS: recipe} | {name: other for name, other in found.items() if other != recipe}


def _held_out(plan: Plan) -> Plan:
    """The plan with a part of what there is to learn from in the place of the test pictures."""
    most, apart = set_apart(plan.train, "held out")
    return replace(plan, parts=(Part("", most, apart),))


def _trainings(plan: Plan, recipe: Recipe, count: int) -> list[Training]:
    return [Training("structured", shard, recipe) for shard in plan.shards(count)]


def _counts(plan: Plan) -> tuple[int, ...]:
    return tuple(count for count in COUNTS if len(plan.train) >= 2 * count)


def wants(plan: Plan) -> list[Training]:
    """A prompt for each shard of what is not held out, by each recipe."""
    held_out = _held_out(plan)
    return [
        training
        for recipe in candidates(plan.recipe).values()
        for count in _counts(held_out)
        for training in _trainings(held_out, recipe, count)
    ]


def find(plan: Plan, laboratory: Laboratory) -> Finding:
    """How well each recipe does on pictures held out, and, only to look at, on the test pictures."""
    held_out = _held_out(plan)
    counts = _counts(held_out)
    rows: list[tuple[str | float, ...]] = []
    means: dict[str, float] = {}
    for name, recipe in candidates(plan.recipe).items():
        shares: list[float] = []
        for count in counts:
            trainings = _trainings(held_out, recipe, count)
            said = laboratory.opinions(trainings, held_out.test)
            tested = right(laboratory.opinions(trainings, plan.test), plan.test)
            shares += [right(said, held_out.test), mean_of_each(said, held_out.test), tested]
        means[name] = sum(shares[::3]) / len(counts)
        rows.append((name, *shares))
    best = max(means, key=lambda name: means[name])
    columns = [Column("recipe", "text")]
    for count in counts:
        columns += [
            Column(f"{count} shards, held out"),
            Column(f"{count} shards, one alone"),
            Column(f"{count} shards, test"),
        ]
    return Finding(
        name="recipes",
        title="Which recipe",
        question="A fifth of the pictures to learn from is held out. Which recipe answers them best, in shards?",
        tables=(
            Table(
                f"Accuracy, {len(held_out.train):,} pictures learnt, {len(held_out.test):,} held out",
                tuple(columns),
                tuple(rows),
                "Recipes are compared by what is held out; the test column is shown beside it, and chooses nothing.",
            ),
        ),
        claims=(
            Claim(
                "The recipe of this study is the best of its neighbours, or within a point of it, on what is held out.",
                f"{in_percent(means[AS_IT_IS])} on average, the best is {best} with {in_percent(means[best])}",
                means[AS_IT_IS] >= means[best] - 0.01,
            ),
        ),
        remarks=(f"The named recipes are: {_described()}.",),
    )


def _described() -> str:
    return "; ".join(
        f"{name}: {each.epochs} epochs, batches of {each.batch}, augmentation {each.augment}, "
        f"views of a picture {each.views_in_all}, label smoothing {each.label_smoothing:g}"
        for name, each in RECIPES.items()
    )


def cannot(plan: Plan) -> str | None:
    """Why nothing can be held out."""
    return None if _counts(_held_out(plan)) else f"{len(plan.train)} pictures are too few to hold some out"


# Whoever wants the paper's tables has chosen a recipe already.
RECIPES_COMPARED = Experiment("recipes", wants, find, cannot, is_in_all=False)
