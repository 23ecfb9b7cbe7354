"""Copies of all prompts trained in a crash run, and the expected answer of any set of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from alacarte.prompting.backbone.preprocess import decode
from alacarte.prompting.predict import Predictor
from alacarte.prompting.prompt.artifact import prompt_from_bytes
from registry.training.lease import Lease
from tests.service.deployment import backbone
from tests.stress.race.fixtures import picture_bytes


@dataclass(frozen=True)
class Copy:
    """A prompt and its origin."""

    source: str
    shard: str
    generation: int
    samples: frozenset[str]  # digests of its training samples
    data: bytes


@dataclass(frozen=True)
class ExpectedAnswer:
    """The answer of a set of prompts to a picture."""

    scores: Mapping[str, float]  # by label
    set_digest: str


def keep_copy(folder: Path, lease: Lease, data: bytes) -> None:
    """Write the prompt under the id that it will have; the final rename makes it atomic."""
    origin = {
        "source": str(lease.source_id),
        "shard": str(lease.shard_id),
        "generation": lease.generation,
        "samples": [sample.digest for sample in lease.samples],
    }
    for name, body in ((f"{lease.id}.safetensors", data), (f"{lease.id}.json", json.dumps(origin).encode())):
        draft = folder / f"{name}.draft"
        draft.write_bytes(body)
        draft.rename(folder / name)


class Copies:
    """All copies of a folder by prompt id."""

    def __init__(self, folder: Path) -> None:
        self.by_prompt: Mapping[str, Copy] = {file.stem: _read(file) for file in sorted(folder.glob("*.json"))}
        self._answers: dict[tuple[frozenset[str], int], ExpectedAnswer] = {}

    def truth(self, prompts: frozenset[str], picture: int) -> ExpectedAnswer:
        """Compute the answer of exactly these prompts with the library alone."""
        if (prompts, picture) not in self._answers:
            images = torch.stack([backbone().preprocessing(decode(picture_bytes(picture)))])
            [answer] = self._predictor.predict(images, [sorted(prompts)])
            scores = dict(zip(answer.labels, answer.scores.tolist(), strict=True))
            self._answers[prompts, picture] = ExpectedAnswer(scores, answer.set_digest)
        return self._answers[prompts, picture]

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(backbone(), {name: prompt_from_bytes(copy.data) for name, copy in self.by_prompt.items()})


def _read(file: Path) -> Copy:
    origin = json.loads(file.read_bytes())
    data = file.with_suffix(".safetensors").read_bytes()
    return Copy(origin["source"], origin["shard"], origin["generation"], frozenset(origin["samples"]), data)
