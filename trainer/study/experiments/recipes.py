"""Recipes: which one trains best, measured on held-out training pictures; the test pictures decide nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from trainer.baselines.evaluate import EnsembleLogits
from trainer.recipe import RECIPES, Recipe
from trainer.schedule import HEAD_RATE, PROMPT_RATE, base_rate
from trainer.study.experiments import class_incremental
from trainer.study.experiments.class_incremental import split_into_episodes
from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_percent
from trainer.study.plan import StudyPlan
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.train_test_split import DomainSplit, Samples, hold_out
from trainer.study.training_spec import TrainingSpec

SHARD_COUNTS = (2, 5, 20)
RATES = (0.01, 0.03, 0.1)  # the last is the paper's
SMOOTHINGS = (0.0, 0.1)  # the first is the paper's
DECAYS = (0.02, 0.2)  # the first is the paper's
UNCHANGED = "unchanged"

ScoreFunction = Callable[[EnsembleLogits, Samples], float]


@dataclass(frozen=True)
class RecipeTask:
    """A split of the training pictures, and the scores of its composed prompts by the title of their column."""

    parts: tuple[Samples, ...]
    scores: Mapping[str, ScoreFunction]

    def trainings(self, recipe: Recipe) -> list[TrainingSpec]:
        """A prompt for each part."""
        return [TrainingSpec("structured", part, recipe) for part in self.parts]


def candidate_recipes(recipe: Recipe) -> dict[str, Recipe]:
    """Return the plan's recipe, others that differ from it in one setting, and heads alone, without duplicates."""
    candidates = {UNCHANGED: recipe}
    candidates |= {f"rate {rate:g}": replace(recipe, base_rate=rate) for rate in RATES}
    candidates |= {f"label smoothing {value:g}": replace(recipe, label_smoothing=value) for value in SMOOTHINGS}
    candidates |= {f"weight decay {value:g}": replace(recipe, weight_decay=value) for value in DECAYS}
    candidates["twice the epochs"] = replace(recipe, epochs=2 * recipe.epochs)
    candidates["half of the batch"] = replace(recipe, batch=max(1, recipe.batch // 2))
    candidates["a quarter of the batch"] = replace(recipe, batch=max(1, recipe.batch // 4))
    if recipe.augment == "none":
        candidates["four augmented views"] = replace(recipe, augment="randaugment", views=4)
    else:
        candidates["no augmentation"] = replace(recipe, augment="none", views=None)
    candidates["head-only"] = replace(recipe, variant="head-only")
    faster = base_rate(recipe) * HEAD_RATE / PROMPT_RATE
    candidates["head-only, the paper's faster rate"] = replace(recipe, variant="head-only", base_rate=faster)
    names: dict[Recipe, str] = {}
    for name, candidate in candidates.items():
        names.setdefault(replace(candidate, base_rate=base_rate(candidate)), name)
    return {name: candidates[name] for name in names.values()}


def _hold_out_plan(plan: StudyPlan) -> StudyPlan:
    """The plan with held-out training pictures in the place of the test pictures."""
    return replace(plan, domains=(DomainSplit("", *hold_out(plan.train, "held out")),))


def recipe_tasks(plan: StudyPlan) -> list[RecipeTask]:
    """Shards, which know the same classes, and, if there are enough classes, episodes, which know different ones."""
    tasks = [
        RecipeTask(plan.shards(count), {f"{count} shards": composed_accuracy})
        for count in SHARD_COUNTS
        if len(plan.train) >= 2 * count
    ]
    if class_incremental.unsupported_reason(plan) is None:
        scores: dict[str, ScoreFunction] = {
            f"{plan.episodes} episodes, APT": lambda members, tests: composed_accuracy(members, tests, "concat"),
            f"{plan.episodes} episodes, APT-W": lambda members, tests: composed_accuracy(
                members, tests, "concat", "prototypes"
            ),
        }
        tasks.append(RecipeTask(split_into_episodes(plan), scores))
    return tasks


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each part of the pictures that are not held out, by each recipe."""
    tasks = recipe_tasks(_hold_out_plan(plan))
    recipes = candidate_recipes(plan.recipe).values()
    return [training for recipe in recipes for task in tasks for training in task.trainings(recipe)]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """Measure each recipe on held-out pictures and, for information only, on the test pictures."""
    held_out = _hold_out_plan(plan)
    tasks = recipe_tasks(held_out)
    titles = [title for task in tasks for title in task.scores]
    runner.compute_logits(required_trainings(plan), held_out.test)  # all prompts in few passes

    def measure(recipe: Recipe, tests: Samples) -> list[float]:
        shares = []
        for task in tasks:
            members = runner.member_logits(task.trainings(recipe), tests)
            shares += [score(members, tests) for score in task.scores.values()]
        return shares

    recipes = candidate_recipes(plan.recipe)
    accuracies = {name: measure(recipe, held_out.test) for name, recipe in recipes.items()}
    means = {name: fmean(shares) for name, shares in accuracies.items()}
    best = max(means, key=lambda name: means[name])
    return ExperimentResult(
        name="recipes",
        title="Recipes",
        question="A fifth of the training pictures is held out. Which recipe is most accurate on them?",
        tables=(
            Table(
                f"Accuracy, {len(held_out.train):,} training pictures, {len(held_out.test):,} held out",
                (Column("recipe", "text"), *map(Column, titles), Column("mean")),
                tuple((name, *shares, means[name]) for name, shares in accuracies.items()),
                "Shards know the same classes, episodes different ones. Recipes are compared by the mean.",
            ),
            Table(
                "The same prompts on the test pictures",
                (Column("recipe", "text"), *map(Column, titles)),
                tuple((name, *measure(recipe, plan.test)) for name, recipe in recipes.items()),
                "For information; not used to compare recipes.",
            ),
        ),
        claims=(
            ClaimCheck(
                "The recipe of this study is the best of those compared on held-out pictures, or within a point of it.",
                f"{format_percent(means[UNCHANGED])} on average, the best is {best} with {format_percent(means[best])}",
                means[UNCHANGED] >= means[best] - 0.01,
            ),
        ),
        notes=(f"The named recipes are: {_describe_named_recipes()}.",),
    )


def _describe_named_recipes() -> str:
    return "; ".join(
        f"{name}: {recipe.epochs} epochs, batches of {recipe.batch}, augmentation {recipe.augment}, "
        f"views of a picture {recipe.view_count}, label smoothing {recipe.label_smoothing:g}"
        for name, recipe in RECIPES.items()
    )


def unsupported_reason(plan: StudyPlan) -> str | None:
    """Why no pictures can be held out."""
    held_out = _hold_out_plan(plan)
    is_supported = held_out.test and recipe_tasks(held_out)
    return None if is_supported else f"{len(plan.train)} pictures are too few to hold some out"


# Not part of "all", which repeats the paper's tables with a recipe that is already chosen.
RECIPE_COMPARISON = Experiment("recipes", required_trainings, run, unsupported_reason, is_in_all=False)
