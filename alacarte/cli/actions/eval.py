"""The work of `alacarte eval`: read the pictures, build the backbone, conduct the study, write its report."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from alacarte.api.literals import UnreadablePolicy
from alacarte.cli.backbones import Wanted, build
from alacarte.cli.errors import CommandError
from alacarte.cli.progress import watch_study
from alacarte.prompting.backbone.vit import Backbone
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.study.plan import DomainSplit, StudyPlan, open_domain_splits
from trainer.study.report.write import write_report
from trainer.study.result_cache import ResultCache
from trainer.study.results import StudyReport
from trainer.study.runner import StudyRunner, cacheable_views
from trainer.study.seed_average import SEED, average_seeds
from trainer.study.study import required_trainings, run_study, select_experiments
from trainer.study.training_spec import TrainingMethod, TrainingSpec

TUNED_EPOCHS = 4  # of whole backbones, which cost 20 times as much as a prompt
LEARNERS: dict[TrainingMethod, str] = {
    "structured": "prompts",
    "full": "prompts in one sequence (paragon)",
    "bias": "biases",
    "fine-tuning": "whole backbones",
}


@dataclass(frozen=True)
class Order:
    """What the command line asks for."""

    data: Path
    out: Path
    experiments: tuple[str, ...]
    backbone: Wanted
    size: int | None
    recipe: Recipe
    recipe_name: str
    joint_epochs: int | None = None  # None: half of the prompts'; 0: leave them out
    tuned_epochs: int | None = None  # None: TUNED_EPOCHS; 0: leave them out
    seeds: int = 1
    skip_unreadable: bool = False
    cache_bytes: int = 0
    scratch: Path | None = None


def evaluate(order: Order, say: Callable[[str], None]) -> StudyReport:
    """The report, which is also in the folder; what was trained is cached there for the next run."""
    _make_folder(order.out)
    start = time.monotonic()
    unreadable: UnreadablePolicy = "skip" if order.skip_unreadable else "refuse"
    with open_domain_splits(order.data, order.scratch, unreadable, order.recipe.seed, say) as parts:
        orders = _by_seed(order)
        names, impossible = select_experiments(order.experiments, [make_plan(each, parts) for each in orders])
        for name, reason in impossible.items():
            say(f"{name} is left out: {reason}")
        backbone = build(order.backbone, order.size, say)
        cut = [f"{name}: {reason}" for name, reason in impossible.items()]
        report = average_seeds([_conduct(each, parts, names, backbone, cut, say) for each in orders])
    write_report(report, order.out)
    say(f"done in {(time.monotonic() - start) / 60:.1f} minutes")
    return report


def _by_seed(order: Order) -> list[Order]:
    seeds = range(order.recipe.seed, order.recipe.seed + order.seeds)
    return [replace(order, recipe=replace(order.recipe, seed=seed)) for seed in seeds]


def _conduct(
    order: Order,
    parts: Sequence[DomainSplit],
    names: Sequence[str],
    backbone: Backbone,
    cut: Sequence[str],
    say: Callable[[str], None],
) -> StudyReport:
    """The study under one seed."""
    if order.seeds > 1:
        say(f"seed {order.recipe.seed}")
    plan = make_plan(order, parts)
    wanted = required_trainings(names, plan)
    views = len(cacheable_views(wanted))
    with StateCache(backbone, order.cache_bytes, views, order.scratch) as cache, watch_study() as watch:
        runner = StudyRunner(backbone, cache, ResultCache(order.out / "cache"), say, watch)
        return run_study(names, plan, runner, _setting(order, plan, wanted, backbone), cut)


def make_plan(order: Order, parts: Sequence[DomainSplit]) -> StudyPlan:
    """The plan with the epochs that were asked for."""
    recipe = order.recipe
    # Whoever sees pixels is slow enough without augmentation; and the paper's rates are those for their own ways.
    tuned = replace(recipe, base_rate=None, augment="none", views=None)
    joint_epochs = max(1, recipe.epochs // 2) if order.joint_epochs is None else order.joint_epochs
    tuned_epochs = min(TUNED_EPOCHS, recipe.epochs) if order.tuned_epochs is None else order.tuned_epochs
    return StudyPlan(
        name=order.data.name.partition(".")[0],
        domains=tuple(parts),
        recipe=recipe,
        joint_recipe=replace(recipe, epochs=joint_epochs) if joint_epochs else None,
        tuned_recipe=replace(tuned, epochs=tuned_epochs) if tuned_epochs else None,
    )


def _setting(
    order: Order, plan: StudyPlan, wanted: Sequence[TrainingSpec], backbone: Backbone
) -> list[tuple[str, str]]:
    usual = Recipe()
    epochs = {LEARNERS[training.method]: training.recipe.epochs for training in wanted}
    differs = {
        field.name: getattr(plan.recipe, field.name)
        for field in fields(Recipe)
        if field.name != "seed" and getattr(plan.recipe, field.name) != getattr(usual, field.name)
    }
    classes = len({sample.label for sample in plan.train})
    return [
        ("data", f"{plan.name}: {len(plan.train):,} training pictures, {len(plan.test):,} test pictures"),
        ("classes", str(classes)),
        ("backbone", f"{backbone.architecture} at {backbone.preprocessing.size} px, {backbone.identity[:12]}"),
        ("recipe", f"{order.recipe_name}: {', '.join(f'{k} {v}' for k, v in differs.items()) or 'as in the paper'}"),
        ("epochs", ", ".join(f"{count} of {learner}" for learner, count in epochs.items())),
        (SEED, str(plan.recipe.seed)),
    ]


def _make_folder(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK | os.X_OK):
        raise CommandError(f"{out}: no right to write into this folder")
