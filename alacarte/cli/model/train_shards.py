"""The work of `alacarte train`: everything that can be refused is refused before the first shard is trained."""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alacarte.cli.backbones import BackboneOptions, build_from_options, describe
from alacarte.cli.errors import CommandError
from alacarte.cli.model.prompt_files import SUFFIX, find_earlier_prompts, name_shards
from alacarte.cli.output import print_message
from alacarte.cli.progress import show_training
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes, write_prompt
from registry.catalog.shard_assignment import split_into_shards
from registry.datasets.dataset import LabelledPicture, SkippedFile
from registry.datasets.loader import open_dataset
from trainer.errors import ShardRefused
from trainer.optimize import EpochProgress, ReportProgress
from trainer.recipe import Recipe
from trainer.train import shard_labels, train_shard


@dataclass(frozen=True)
class TrainPlan:
    """What to train, and where the prompts go."""

    data: Path
    out: Path
    shards: int
    backbone: BackboneOptions
    recipe: Recipe
    size: int | None = None
    identity: str | None = None  # required of the backbone; None: any
    labels: tuple[str, ...] | None = None  # allowed labels; None: any
    within: str | None = None
    skip_unreadable: bool = False
    force: bool = False
    cache_bytes: int = 0
    scratch: Path | None = None


@dataclass(frozen=True)
class TrainedShard:
    """A shard whose prompt was written to a file."""

    number: int
    file: Path
    digest: str
    samples: int
    labels: tuple[str, ...]
    loss: float  # mean of the last epoch
    seconds: float


@dataclass(frozen=True)
class TrainResult:
    """The result of training all shards."""

    backbone: dict[str, str | int]
    left_out: tuple[SkippedFile, ...]
    shards: tuple[TrainedShard, ...]


def train_shards(plan: TrainPlan) -> TrainResult:
    """Train a prompt for each shard, and write each file as soon as it is trained."""
    earlier = find_earlier_prompts(plan.out, plan.force)
    with open_dataset(
        plan.data,
        scratch=plan.scratch,
        within=plan.within,
        unreadable="skip" if plan.skip_unreadable else "refuse",
    ) as collection:
        if collection.skipped:
            first = collection.skipped[0]
            print_message(f"{len(collection.skipped)} files left out; the first is {first.name}: {first.reason}")
        shards = _split(collection.samples, plan)
        _warn_about_single_labels(shards)
        _make_folders(plan)
        backbone = build_from_options(plan.backbone, plan.size, print_message)
        _require_identity(backbone, plan)
        trained = _train_all(backbone, shards, plan, earlier)
    return TrainResult(describe(backbone), collection.skipped, trained)


def _train_all(
    backbone: Backbone, shards: dict[str, tuple[LabelledPicture, ...]], plan: TrainPlan, earlier: Sequence[Path]
) -> tuple[TrainedShard, ...]:
    trained: list[TrainedShard] = []
    with show_training({name: len(samples) for name, samples in shards.items()}, plan.recipe.epochs) as make_callback:
        for number, (name, samples) in enumerate(shards.items()):
            start, last = time.monotonic(), _LossRecorder(make_callback(name))
            prompt = train_shard(backbone, samples, plan.recipe, plan.cache_bytes, last, plan.scratch)
            file = plan.out / f"{name}{SUFFIX}"
            if not trained:  # keep the earlier prompts until there is a new one; never mix the two
                for old in earlier:
                    old.unlink(missing_ok=True)
            write_prompt(prompt, file)
            trained.append(
                TrainedShard(
                    number,
                    file,
                    prompt_digest(prompt_to_bytes(prompt)),
                    len(samples),
                    prompt.metadata.labels,
                    last.loss,
                    time.monotonic() - start,
                )
            )
    return tuple(trained)


class _LossRecorder:
    """A progress callback that records the last loss and calls another one."""

    def __init__(self, report: ReportProgress) -> None:
        self._report = report
        self.loss = 0.0

    def __call__(self, progress: EpochProgress) -> None:
        self.loss = progress.loss
        self._report(progress)


def _split(samples: Sequence[LabelledPicture], plan: TrainPlan) -> dict[str, tuple[LabelledPicture, ...]]:
    """Split the samples into named shards; ShardRefused if one cannot be trained."""
    labels = sorted({sample.label for sample in samples})
    if plan.labels is not None and (unknown := sorted(set(labels) - set(plan.labels))):
        raise ShardRefused(f"{plan.data} has the label {unknown[0]!r}, which the task does not have: leave it out")
    if plan.shards > len(samples):
        raise ShardRefused(f"{len(samples)} pictures cannot make {plan.shards} shards: use fewer")
    key = hashlib.sha256(f"shards of seed {plan.recipe.seed}".encode()).digest()
    shards = dict(zip(name_shards(plan.shards), split_into_shards(samples, key, plan.shards), strict=True))
    for name, part in shards.items():
        try:
            shard_labels(part)
        except ShardRefused as error:
            raise ShardRefused(f"{name}: {error}") from error
    return shards


def _warn_about_single_labels(shards: dict[str, tuple[LabelledPicture, ...]]) -> None:
    single = [samples[0].label for samples in shards.values() if len(shard_labels(samples)) == 1]
    if single:
        print_message(
            f"{len(single)} of {len(shards)} shards have pictures of one label only, {single[0]!r} the first: "
            "such a prompt answers only this label, and is useful only together with others"
        )


def _require_identity(backbone: Backbone, plan: TrainPlan) -> None:
    if plan.identity not in (None, backbone.identity):
        raise CommandError(
            f"the task's prompts use another backbone than this {backbone.architecture} at "
            f"{backbone.preprocessing.size} px, or other weights of it: give theirs with --backbone or --weights"
        )


def _make_folders(plan: TrainPlan) -> None:
    plan.out.mkdir(parents=True, exist_ok=True)
    if not os.access(plan.out, os.W_OK | os.X_OK):
        raise CommandError(f"{plan.out}: no permission to write into this folder")
    if plan.scratch is not None:
        if plan.scratch.exists() and not plan.scratch.is_dir():
            raise CommandError(f"{plan.scratch} is not a folder: give another with --scratch")
        plan.scratch.mkdir(parents=True, exist_ok=True)
