"""The work of `alacarte demo`: train four sources, forget one, add it back, and count what is right."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from alacarte.cli.actions.digits import DIGITS, TestPicture, write_digits
from alacarte.cli.backbones import Wanted, build, describe
from alacarte.cli.errors import CommandRefused
from alacarte.cli.progress import watch
from alacarte.prompting.backbone.preprocess import decode
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.predict import Answer, Predictor
from alacarte.prompting.prompt.artifact import read_prompt, write_prompt
from registry.datasets.loader import open_collection
from trainer.recipe import Recipe
from trainer.threads import one_thread
from trainer.train import train_shard

# B images

FORGOTTEN = "bob"
BATCH = 16
CACHE_BYTES = 2 * 10**9


@dataclass(frozen=True)
class Extent:
    """How much there is to do."""

    pictures: int  # of each source
    tests: int
    epochs: int
    size: int  # of the pictures, in pixels


# Sized for about two minutes on two cores with a ViT-S. Patches of 14 and of 16 pixels both divide 112, so that
# any backbone which may be found will do.
EXTENT = Extent(pictures=100, tests=200, epochs=20, size=112)


@dataclass(frozen=True)
class TrainedSource:
    """A source with its prompt trained."""

    name: str
    digits: str
    samples: int
    seconds: float


@dataclass(frozen=True)
class Score:
    """The share of test pictures that a set of sources labels right: all, 0 to 4, and 5 to 9."""

    name: str
    sources: tuple[str, ...]
    right: float
    right_low: float
    right_high: float


@dataclass(frozen=True)
class Demonstration:
    """What was shown; that adding back restores every score is checked before there is one."""

    backbone: dict[str, str | int]
    sources: tuple[TrainedSource, ...]
    scores: tuple[Score, ...]
    tests: int
    forgotten: str
    compared: int  # scores before and after
    seconds: float


def demonstrate(
    weights: Path | Literal["random"] | None, seed: int, extent: Extent, keep: Path | None, say: Callable[[str], None]
) -> Demonstration:
    """Train, forget, add back; everything on disk is gone afterwards, unless there is a folder to keep it in."""
    start = time.monotonic()
    backbone = build(Wanted(weights=weights), extent.size, say)
    with _temporary() if keep is None else _kept(keep) as folder:
        folders, tests = write_digits(folder, extent.pictures, extent.tests, seed)
        recipe = Recipe(epochs=extent.epochs, batch=16, augment="none", seed=seed)
        prompts, sources = _train(backbone, folders, recipe, folder)
        scores, compared = _forget_and_restore(backbone, prompts, tests)
    return Demonstration(
        backbone=describe(backbone),
        sources=sources,
        scores=scores,
        tests=len(tests),
        forgotten=FORGOTTEN,
        compared=compared,
        seconds=round(time.monotonic() - start, 1),
    )


@contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="alacarte-demo-") as scratch:
        yield Path(scratch)


@contextmanager
def _kept(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def _train(
    backbone: Backbone, folders: Mapping[str, Path], recipe: Recipe, folder: Path
) -> tuple[dict[str, Path], tuple[TrainedSource, ...]]:
    """A prompt file for each source."""
    prompts: dict[str, Path] = {}
    sources: list[TrainedSource] = []
    pictures = {name: sum(1 for _ in source.rglob("*.png")) for name, source in folders.items()}
    with watch(pictures, recipe.epochs) as report_of:
        for name, source in folders.items():
            start = time.monotonic()
            with open_collection(source) as collection:
                prompt = train_shard(backbone, collection.samples, recipe, CACHE_BYTES, report_of(name), folder)
            prompts[name] = folder / "prompts" / f"{name}.safetensors"
            prompts[name].parent.mkdir(exist_ok=True)
            write_prompt(prompt, prompts[name])
            digits = f"{DIGITS[name][0]}-{DIGITS[name][-1]}"
            seconds = round(time.monotonic() - start, 1)
            sources.append(TrainedSource(name, digits, prompt.facts.samples, seconds))
    return prompts, tuple(sources)


def _forget_and_restore(
    backbone: Backbone, prompts: Mapping[str, Path], tests: Sequence[TestPicture]
) -> tuple[tuple[Score, ...], int]:
    """The scores of the story, and how many numbers were the same before and after."""
    images = torch.stack([backbone.preprocessing(decode(test.path)) for test in tests])  # (B, 3, S, S)
    truth = [test.label for test in tests]
    others = {name: path for name, path in prompts.items() if name != FORGOTTEN}
    with one_thread():  # on busy cores, threads that wait for each other cost far more than they save
        before = _ask(backbone, prompts, images)
        without = _ask(backbone, others, images)
        after = _ask(backbone, prompts, images)
    if [_numbers(answer) for answer in before] != [_numbers(answer) for answer in after]:
        raise CommandRefused(f"adding {FORGOTTEN} back changed an answer: please report this")
    story = (
        _score("all four", prompts, [answer.labels[0] for answer in before], truth),
        _score(f"{FORGOTTEN} forgotten", others, [answer.labels[0] for answer in without], truth),
        _score(f"{FORGOTTEN} added back", prompts, [answer.labels[0] for answer in after], truth),
    )
    # No prompt depends on another: what each would say alone is in the answers already.
    alone = [
        _score(f"{name} alone", [name], [_own_label(answer, place) for answer in before], truth)
        for place, name in enumerate(prompts)
    ]
    return (*story, *alone), sum(len(answer.labels) for answer in before)


def _ask(backbone: Backbone, prompts: Mapping[str, Path], images: Tensor) -> list[Answer]:
    """The answers of exactly these prompt files, read anew."""
    predictor = Predictor(backbone, {name: read_prompt(path) for name, path in prompts.items()})
    answers: list[Answer] = []
    for start in range(0, len(images), BATCH):
        batch = images[start : start + BATCH]
        answers += predictor.predict(batch, [list(prompts)] * len(batch))
    return answers


def _numbers(answer: Answer) -> tuple[tuple[str, ...], list[float]]:
    return answer.labels, answer.scores.tolist()


def _own_label(answer: Answer, place: int) -> str:
    member = answer.members[place]
    return member.labels[int(member.scores.argmax())]


def _score(name: str, sources: Mapping[str, Path] | Sequence[str], said: Sequence[str], truth: Sequence[str]) -> Score:
    def share(digits: str) -> float:
        asked = [(answer, label) for answer, label in zip(said, truth, strict=True) if label in digits]
        return sum(answer == label for answer, label in asked) / max(len(asked), 1)

    return Score(name, tuple(sources), share("0123456789"), share("01234"), share("56789"))
