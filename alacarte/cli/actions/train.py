"""The work of `alacarte train`: all that can be refused is refused before the first shard is trained."""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from alacarte.cli.backbones import Wanted, build, describe
from alacarte.cli.errors import CommandError
from alacarte.cli.progress import watch
from alacarte.cli.prompt_files import SUFFIX, name_shards, require_room
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes, write_prompt
from registry.catalog.shard_assignment import split_into_shards
from registry.datasets.dataset import LabelledPicture, SkippedFile
from registry.datasets.loader import open_dataset
from trainer.errors import ShardRefused
from trainer.optimize import ReportProgress, TrainingProgress
from trainer.recipe import Recipe
from trainer.train import shard_labels, train_shard


@dataclass(frozen=True)
class Plan:
    """What to train from what, and where it goes."""

    data: Path
    out: Path
    shards: int
    backbone: Wanted
    recipe: Recipe
    size: int | None = None
    identity: str | None = None  # that the backbone must have; None: any
    labels: tuple[str, ...] | None = None  # that the pictures may have; None: any
    within: str | None = None
    skip_unreadable: bool = False
    force: bool = False
    cache_bytes: int = 0
    scratch: Path | None = None


@dataclass(frozen=True)
class TrainedShard:
    """A shard whose prompt is in its file."""

    number: int
    file: Path
    digest: str
    samples: int
    labels: tuple[str, ...]
    loss: float  # mean of the last epoch
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What a training has left behind."""

    backbone: dict[str, str | int]
    left_out: tuple[SkippedFile, ...]
    shards: tuple[TrainedShard, ...]


def train_shards(plan: Plan, say: Callable[[str], None]) -> Outcome:
    """A prompt file for each shard, written as soon as it is trained."""
    earlier = require_room(plan.out, plan.force)
    with open_dataset(
        plan.data,
        scratch=plan.scratch,
        within=plan.within,
        unreadable="skip" if plan.skip_unreadable else "refuse",
    ) as collection:
        if collection.skipped:
            first = collection.skipped[0]
            say(f"{len(collection.skipped)} files left out; the first is {first.name}: {first.reason}")
        shards = _split(collection.samples, plan)
        _warn_of_one_label(shards, say)
        _make_folders(plan)
        backbone = build(plan.backbone, plan.size, say)
        _require_identity(backbone, plan)
        trained = _train_all(backbone, shards, plan, earlier)
    return Outcome(describe(backbone), collection.skipped, trained)


def _train_all(
    backbone: Backbone, shards: dict[str, tuple[LabelledPicture, ...]], plan: Plan, earlier: Sequence[Path]
) -> tuple[TrainedShard, ...]:
    trained: list[TrainedShard] = []
    with watch({name: len(samples) for name, samples in shards.items()}, plan.recipe.epochs) as report_of:
        for number, (name, samples) in enumerate(shards.items()):
            start, last = time.monotonic(), _Last(report_of(name))
            prompt = train_shard(backbone, samples, plan.recipe, plan.cache_bytes, last, plan.scratch)
            file = plan.out / f"{name}{SUFFIX}"
            if not trained:  # the old ones stay until there is something new, and are never mixed with it
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


class _Last:
    """A report that remembers the loss and passes everything on."""

    def __init__(self, report: ReportProgress) -> None:
        self._report = report
        self.loss = 0.0

    def __call__(self, progress: TrainingProgress) -> None:
        self.loss = progress.loss
        self._report(progress)


def _split(samples: Sequence[LabelledPicture], plan: Plan) -> dict[str, tuple[LabelledPicture, ...]]:
    """The samples of each shard by its name; all are fit for training."""
    labels = sorted({sample.label for sample in samples})
    if plan.labels is not None and (strange := sorted(set(labels) - set(plan.labels))):
        raise ShardRefused(f"{plan.data} has the label {strange[0]!r}, which the task has not: leave it out")
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


def _warn_of_one_label(shards: dict[str, tuple[LabelledPicture, ...]], say: Callable[[str], None]) -> None:
    alone = [samples[0].label for samples in shards.values() if len(shard_labels(samples)) == 1]
    if alone:
        say(
            f"{len(alone)} of {len(shards)} shards have pictures of one label only, {alone[0]!r} the first: "
            "such a prompt knows nothing else, and is of use only beside others"
        )


def _require_identity(backbone: Backbone, plan: Plan) -> None:
    if plan.identity not in (None, backbone.identity):
        raise CommandError(
            f"the task's prompts are on another backbone than this {backbone.architecture} at "
            f"{backbone.preprocessing.size} px, or on other weights of it: give theirs with --backbone or --weights"
        )


def _make_folders(plan: Plan) -> None:
    plan.out.mkdir(parents=True, exist_ok=True)
    if not os.access(plan.out, os.W_OK | os.X_OK):
        raise CommandError(f"{plan.out}: no right to write into this folder")
    if plan.scratch is not None:
        if plan.scratch.exists() and not plan.scratch.is_dir():
            raise CommandError(f"{plan.scratch} is no folder: give another with --scratch")
        plan.scratch.mkdir(parents=True, exist_ok=True)
