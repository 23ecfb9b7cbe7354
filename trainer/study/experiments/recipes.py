"""Recipes: which one learns best, measured on pictures held out from training; the test set has no say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from trainer.baselines.evaluate import EnsembleLogits
from trainer.recipe import RECIPES, Recipe
from trainer.schedule import HEAD_RATE, PROMPT_RATE, RATE_BATCH, peak_rate
from trainer.study.experiments.class_incremental import episodes
from trainer.study.experiments.class_incremental import unsupported_reason as no_episodes
from trainer.study.experiments.experiment import Experiment, composed_accuracy, format_percent
from trainer.study.plan import DomainSplit, Samples, StudyPlan, hold_out
from trainer.study.results import ClaimCheck, Column, ExperimentResult, Table
from trainer.study.runner import StudyRunner
from trainer.study.training_spec import TrainingSpec

COUNTS = (2, 5, 20)
RATES = (0.01, 0.03, 0.1)  # the last is the paper's
SMOOTHINGS = (0.0, 0.1)  # the first is the paper's
DECAYS = (0.02, 0.2)  # the first is the paper's
AS_IT_IS = "as it is"

Judge = Callable[[EnsembleLogits, Samples], float]


@dataclass(frozen=True)
class Question:
    """A way to split what there is to learn from, and how the composed answers are judged."""

    parts: tuple[Samples, ...]
    judges: Mapping[str, Judge]  # by the title of their column


def candidates(recipe: Recipe) -> dict[str, Recipe]:
    """The recipe of the plan, others that differ from it in one thing, and heads alone; none of them twice."""
    found = {AS_IT_IS: recipe}
    found |= {f"rate {rate:g}": replace(recipe, base_rate=rate) for rate in RATES}
    found |= {f"label smoothing {each:g}": replace(recipe, label_smoothing=each) for each in SMOOTHINGS}
    found |= {f"weight decay {each:g}": replace(recipe, weight_decay=each) for each in DECAYS}
    found["twice the epochs"] = replace(recipe, epochs=2 * recipe.epochs)
    found["half of the batch"] = replace(recipe, batch=max(1, recipe.batch // 2))
    found["a quarter of the batch"] = replace(recipe, batch=max(1, recipe.batch // 4))
    if recipe.augment == "none":
        found["four augmented views"] = replace(recipe, augment="randaugment", views=4)
    else:
        found["no augmentation"] = replace(recipe, augment="none", views=None)
    found["head-only"] = replace(recipe, variant="head-only")
    faster = _base_rate(recipe) * HEAD_RATE / PROMPT_RATE
    found["head-only, faster as in the paper"] = replace(recipe, variant="head-only", base_rate=faster)
    firsts: dict[Recipe, str] = {}
    for name, each in found.items():
        firsts.setdefault(replace(each, base_rate=_base_rate(each)), name)
    return {name: found[name] for name in firsts.values()}


def _base_rate(recipe: Recipe) -> float:
    """Its own, or, where it leaves that open, the paper's for its variant."""
    return peak_rate(recipe) * RATE_BATCH / recipe.batch


def _held_out(plan: StudyPlan) -> StudyPlan:
    """The plan with a part of what there is to learn from in the place of the test pictures."""
    most, apart = hold_out(plan.train, "held out")
    return replace(plan, domains=(DomainSplit("", most, apart),))


def questions(plan: StudyPlan) -> list[Question]:
    """Shards, which know the same classes, and, if there are enough, episodes, which know different ones."""
    found = [
        Question(plan.shards(count), {f"{count} shards": composed_accuracy})
        for count in COUNTS
        if len(plan.train) >= 2 * count
    ]
    if no_episodes(plan) is None:
        judges: dict[str, Judge] = {
            f"{plan.episodes} episodes, APT": lambda said, tests: composed_accuracy(said, tests, "concat"),
            f"{plan.episodes} episodes, APT-W": lambda said, tests: composed_accuracy(
                said, tests, "concat", "prototypes"
            ),
        }
        found.append(Question(episodes(plan), judges))
    return found


def _trainings(question: Question, recipe: Recipe) -> list[TrainingSpec]:
    return [TrainingSpec("structured", part, recipe) for part in question.parts]


def required_trainings(plan: StudyPlan) -> list[TrainingSpec]:
    """A prompt for each part of what is not held out, by each recipe."""
    asked = questions(_held_out(plan))
    return [
        training
        for recipe in candidates(plan.recipe).values()
        for question in asked
        for training in _trainings(question, recipe)
    ]


def run(plan: StudyPlan, runner: StudyRunner) -> ExperimentResult:
    """How well each recipe does on pictures held out, and, only to look at, on the test pictures."""
    held_out = _held_out(plan)
    asked = questions(held_out)
    titles = [title for question in asked for title in question.judges]
    runner.compute_logits(required_trainings(plan), held_out.test)  # all at once, in few passes

    def judged(recipe: Recipe, tests: Samples) -> list[float]:
        shares = []
        for question in asked:
            said = runner.member_logits(_trainings(question, recipe), tests)
            shares += [judge(said, tests) for judge in question.judges.values()]
        return shares

    found = {name: judged(recipe, held_out.test) for name, recipe in candidates(plan.recipe).items()}
    means = {name: fmean(shares) for name, shares in found.items()}
    best = max(means, key=lambda name: means[name])
    return ExperimentResult(
        name="recipes",
        title="Which recipe",
        question="A fifth of the pictures to learn from is held out. Which recipe answers them best?",
        tables=(
            Table(
                f"Accuracy, {len(held_out.train):,} pictures learnt, {len(held_out.test):,} held out",
                (Column("recipe", "text"), *map(Column, titles), Column("mean")),
                tuple((name, *shares, means[name]) for name, shares in found.items()),
                "Shards know the same classes, episodes different ones. Recipes are compared by the mean.",
            ),
            Table(
                "The same prompts asked about the test pictures",
                (Column("recipe", "text"), *map(Column, titles)),
                tuple((name, *judged(recipe, plan.test)) for name, recipe in candidates(plan.recipe).items()),
                "To look at; they choose nothing.",
            ),
        ),
        claims=(
            ClaimCheck(
                "The recipe of this study is the best of its neighbours, or within a point of it, on what is held out.",
                f"{format_percent(means[AS_IT_IS])} on average, the best is {best} with {format_percent(means[best])}",
                means[AS_IT_IS] >= means[best] - 0.01,
            ),
        ),
        notes=(f"The named recipes are: {_described()}.",),
    )


def _described() -> str:
    return "; ".join(
        f"{name}: {each.epochs} epochs, batches of {each.batch}, augmentation {each.augment}, "
        f"views of a picture {each.view_count}, label smoothing {each.label_smoothing:g}"
        for name, each in RECIPES.items()
    )


def unsupported_reason(plan: StudyPlan) -> str | None:
    """Why nothing can be held out."""
    held_out = _held_out(plan)
    can = held_out.test and questions(held_out)
    return None if can else f"{len(plan.train)} pictures are too few to hold some out"


# Whoever wants the paper's tables has chosen a recipe already.
RECIPE_COMPARISON = Experiment("recipes", required_trainings, run, unsupported_reason, is_in_all=False)
