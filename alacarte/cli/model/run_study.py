"""The work of `alacarte eval`: read the pictures, build the backbone, run the study, write its report."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from alacarte.api.literals import UnreadablePolicy
from alacarte.cli.backbones import BackboneOptions, build_from_options
from alacarte.cli.errors import CommandError
from alacarte.cli.output import print_message
from alacarte.cli.progress import show_study
from alacarte.prompting.backbone.vit import Backbone
from trainer.recipe import Recipe
from trainer.state_cache import StateCache
from trainer.study.plan import StudyPlan
from trainer.study.report.write import write_report
from trainer.study.result_cache import ResultCache
from trainer.study.results import StudyReport
from trainer.study.runner import StudyRunner, cacheable_views
from trainer.study.seed_average import SEED, average_seeds
from trainer.study.study import required_trainings, run_study, select_experiments
from trainer.study.train_test_split import DomainSplit, open_domain_splits
from trainer.study.training_spec import TrainingMethod, TrainingSpec

TUNED_EPOCHS = 4  # of whole backbones, which cost 20 times as much as a prompt
LEARNERS: dict[TrainingMethod, str] = {
    "structured": "prompts",
    "full": "prompts in one sequence (paragon)",
    "bias": "biases",
    "fine-tuning": "whole backbones",
}


@dataclass(frozen=True)
class StudyOptions:
    """The options of `alacarte eval`."""

    data: Path
    out: Path
    experiments: tuple[str, ...]
    backbone: BackboneOptions
    size: int | None
    recipe: Recipe
    recipe_name: str
    joint_epochs: int | None = None  # None: half of the prompts'; 0: leave them out
    tuned_epochs: int | None = None  # None: TUNED_EPOCHS; 0: leave them out
    seeds: int = 1
    skip_unreadable: bool = False
    cache_bytes: int = 0
    scratch: Path | None = None


def evaluate(options: StudyOptions) -> StudyReport:
    """Run the study, write its report to the folder, and cache the trainings there for the next run."""
    _make_folder(options.out)
    start = time.monotonic()
    unreadable: UnreadablePolicy = "skip" if options.skip_unreadable else "refuse"
    with open_domain_splits(options.data, options.scratch, unreadable, options.recipe.seed, print_message) as parts:
        by_seed = _split_seeds(options)
        names, impossible = select_experiments(options.experiments, [make_plan(each, parts) for each in by_seed])
        for name, reason in impossible.items():
            print_message(f"{name} is left out: {reason}")
        backbone = build_from_options(options.backbone, options.size, print_message)
        cut = [f"{name}: {reason}" for name, reason in impossible.items()]
        report = average_seeds([_run_one_seed(each, parts, names, backbone, cut) for each in by_seed])
    write_report(report, options.out)
    print_message(f"done in {(time.monotonic() - start) / 60:.1f} minutes")
    return report


def _split_seeds(options: StudyOptions) -> list[StudyOptions]:
    seeds = range(options.recipe.seed, options.recipe.seed + options.seeds)
    return [replace(options, recipe=replace(options.recipe, seed=seed)) for seed in seeds]


def _run_one_seed(
    options: StudyOptions,
    parts: Sequence[DomainSplit],
    names: Sequence[str],
    backbone: Backbone,
    cut: Sequence[str],
) -> StudyReport:
    """Run the study with one seed."""
    if options.seeds > 1:
        print_message(f"seed {options.recipe.seed}")
    plan = make_plan(options, parts)
    trainings = required_trainings(names, plan)
    views = len(cacheable_views(trainings))
    with StateCache(backbone, options.cache_bytes, views, options.scratch) as cache, show_study() as watch:
        runner = StudyRunner(backbone, cache, ResultCache(options.out / "cache"), print_message, watch)
        return run_study(names, plan, runner, _setting(options, plan, trainings, backbone), cut)


def make_plan(options: StudyOptions, parts: Sequence[DomainSplit]) -> StudyPlan:
    """Return the plan of the study."""
    recipe = options.recipe
    # Fine-tuning runs the whole backbone in every step, so it goes without augmentation; it has rates of its own.
    tuned = replace(recipe, base_rate=None, augment="none", views=None)
    joint_epochs = max(1, recipe.epochs // 2) if options.joint_epochs is None else options.joint_epochs
    tuned_epochs = min(TUNED_EPOCHS, recipe.epochs) if options.tuned_epochs is None else options.tuned_epochs
    return StudyPlan(
        name=options.data.name.partition(".")[0],
        domains=tuple(parts),
        recipe=recipe,
        joint_recipe=replace(recipe, epochs=joint_epochs) if joint_epochs else None,
        tuned_recipe=replace(tuned, epochs=tuned_epochs) if tuned_epochs else None,
    )


def _setting(
    options: StudyOptions, plan: StudyPlan, trainings: Sequence[TrainingSpec], backbone: Backbone
) -> list[tuple[str, str]]:
    usual = Recipe()
    epochs = {LEARNERS[training.method]: training.recipe.epochs for training in trainings}
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
        ("recipe", f"{options.recipe_name}: {', '.join(f'{k} {v}' for k, v in differs.items()) or 'as in the paper'}"),
        ("epochs", ", ".join(f"{count} of {learner}" for learner, count in epochs.items())),
        (SEED, str(plan.recipe.seed)),
    ]


def _make_folder(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK | os.X_OK):
        raise CommandError(f"{out}: no permission to write into this folder")
