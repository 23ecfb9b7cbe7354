"""The work of `alacarte eval`: read the pictures, build the backbone, conduct the study, write its report."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from alacarte.cli.backbones import Wanted, build
from alacarte.cli.errors import CommandError
from alacarte.cli.progress import watch_study
from alacarte.prompting.backbone.vit import Backbone
from registry.datasets.validate import Unreadable
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.study.data_splits import open_parts
from trainer.study.plan import Part, Plan
from trainer.study.precompute_states import views_of
from trainer.study.report.write import write_report
from trainer.study.results import StudyReport
from trainer.study.run import choose, conduct, wanted_by
from trainer.study.run_store import Kept
from trainer.study.runner import Laboratory
from trainer.study.seed_average import SEED, merge
from trainer.study.train_prompts import Training, Way

TUNED_EPOCHS = 4  # of whole backbones, which cost 20 times as much as a prompt
LEARNERS: dict[Way, str] = {
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
    """The report, which is also in the folder; what was trained is kept there for the next time."""
    _make_folder(order.out)
    start = time.monotonic()
    unreadable: Unreadable = "skip" if order.skip_unreadable else "refuse"
    with open_parts(order.data, order.scratch, unreadable, order.recipe.seed, say) as parts:
        orders = _by_seed(order)
        names, impossible = choose(order.experiments, [make_plan(each, parts) for each in orders])
        for name, reason in impossible.items():
            say(f"{name} is left out: {reason}")
        backbone = build(order.backbone, order.size, say)
        cut = [f"{name}: {reason}" for name, reason in impossible.items()]
        report = merge([_conduct(each, parts, names, backbone, cut, say) for each in orders])
    write_report(report, order.out)
    say(f"done in {(time.monotonic() - start) / 60:.1f} minutes")
    return report


def _by_seed(order: Order) -> list[Order]:
    seeds = range(order.recipe.seed, order.recipe.seed + order.seeds)
    return [replace(order, recipe=replace(order.recipe, seed=seed)) for seed in seeds]


def _conduct(
    order: Order,
    parts: Sequence[Part],
    names: Sequence[str],
    backbone: Backbone,
    cut: Sequence[str],
    say: Callable[[str], None],
) -> StudyReport:
    """The study under one seed."""
    if order.seeds > 1:
        say(f"seed {order.recipe.seed}")
    plan = make_plan(order, parts)
    wanted = wanted_by(names, plan)
    views = len(views_of(wanted))
    with StateCache(backbone, order.cache_bytes, views, order.scratch) as cache, watch_study() as watch:
        laboratory = Laboratory(backbone, cache, Kept(order.out / "kept"), say, watch)
        return conduct(names, plan, laboratory, _setting(order, plan, wanted, backbone), cut)


def make_plan(order: Order, parts: Sequence[Part]) -> Plan:
    """The plan with the epochs that were asked for."""
    recipe = order.recipe
    # Whoever sees pixels is slow enough without augmentation; and the paper's rates are those for their own ways.
    tuned = replace(recipe, base_rate=None, augment="none", views=None)
    joint_epochs = max(1, recipe.epochs // 2) if order.joint_epochs is None else order.joint_epochs
    tuned_epochs = min(TUNED_EPOCHS, recipe.epochs) if order.tuned_epochs is None else order.tuned_epochs
    return Plan(
        name=order.data.name.partition(".")[0],
        parts=tuple(parts),
        recipe=recipe,
        joint=replace(recipe, epochs=joint_epochs) if joint_epochs else None,
        tuned=replace(tuned, epochs=tuned_epochs) if tuned_epochs else None,
    )


def _setting(order: Order, plan: Plan, wanted: Sequence[Training], backbone: Backbone) -> list[tuple[str, str]]:
    usual = Recipe()
    epochs = {LEARNERS[training.way]: training.recipe.epochs for training in wanted}
    differs = {
        field.name: getattr(plan.recipe, field.name)
        for field in fields(Recipe)
        if field.name != "seed" and getattr(plan.recipe, field.name) != getattr(usual, field.name)
    }
    classes = len({sample.label for sample in plan.train})
    return [
        ("data", f"{plan.name}: {len(plan.train):,} pictures to learn from, {len(plan.test):,} to be asked about"),
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
