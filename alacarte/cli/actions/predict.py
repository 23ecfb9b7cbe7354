"""The work of `alacarte predict`: prompts and their backbone once, then pictures in small batches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from alacarte.api.literals import Composition, Weighting
from alacarte.cli.backbones import Wanted, describe, find
from alacarte.prompting.backbone.preprocess import decode
from alacarte.prompting.predict import ImagePrediction, Predictor, set_digest
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes, read_prompt

# B images, C labels

BATCH = 16

Ranking = tuple[tuple[str, float], ...]  # labels with scores, best first


@dataclass(frozen=True)
class Opinion:
    """What one prompt said by itself, and how much it counted."""

    prompt: str
    weight: float
    ranking: Ranking


@dataclass(frozen=True)
class Verdict:
    """What the set says about one picture, in plain values."""

    image: str
    ranking: Ranking
    opinions: tuple[Opinion, ...]


class Question:
    """Pictures, and the prompts that are asked about them on the backbone that they share."""

    def __init__(
        self, images: Sequence[Path], files: Sequence[Path], wanted: Wanted, say: Callable[[str], None]
    ) -> None:
        found = {file: read_prompt(file) for file in files}
        self._images = images
        self._backbone = find(found, wanted, say)
        self._predictor = Predictor(self._backbone, {str(path): prompt for path, prompt in found.items()})
        self.backbone = describe(self._backbone)
        self.prompts = [str(path) for path in found]
        self.set_digest = set_digest([prompt_digest(prompt_to_bytes(prompt)) for prompt in found.values()])

    def verdicts(self, composition: Composition, weighting: Weighting, top_k: int) -> Iterator[Verdict]:
        """One verdict for each picture, in order, with at most `top_k` labels in a ranking."""
        for start in range(0, len(self._images), BATCH):
            images = self._images[start : start + BATCH]
            pixels = torch.stack([self._backbone.preprocessing(decode(image)) for image in images])
            sets = [self.prompts] * len(images)
            answers = self._predictor.predict(pixels, sets, composition, weighting)
            for image, answer in zip(images, answers, strict=True):
                yield _verdict(image, answer, top_k)


def rank(labels: Sequence[str], scores: Tensor, top_k: int) -> Ranking:
    """The labels with the best scores (C), of equal ones the first."""
    best, order = scores.sort(descending=True, stable=True)
    return tuple(
        (labels[index], score) for index, score in zip(order[:top_k].tolist(), best[:top_k].tolist(), strict=True)
    )


def _verdict(image: Path, answer: ImagePrediction, top_k: int) -> Verdict:
    return Verdict(
        str(image),
        rank(answer.labels, answer.scores, top_k),
        tuple(
            Opinion(member.name, member.weight, rank(member.labels, member.scores, top_k)) for member in answer.members
        ),
    )
