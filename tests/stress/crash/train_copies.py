"""Copies of all prompts that were ever trained in a crash run, and what a set of them says of a picture."""

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
    """A prompt, and where it came from."""

    source: str
    shard: str
    generation: int
    samples: frozenset[str]  # the digests of the pictures that it learnt from
    data: bytes


@dataclass(frozen=True)
class Said:
    """What a set of prompts says of a picture."""

    scores: Mapping[str, float]  # by label
    set_digest: str


def keep_copy(folder: Path, lease: Lease, data: bytes) -> None:
    """Writes down what the lease taught, under the id that its prompt will have; whoever reads finds all or nothing."""
    facts = {
        "source": str(lease.source_id),
        "shard": str(lease.shard_id),
        "generation": lease.generation,
        "samples": [sample.digest for sample in lease.samples],
    }
    for name, body in ((f"{lease.id}.safetensors", data), (f"{lease.id}.json", json.dumps(facts).encode())):
        draft = folder / f"{name}.draft"
        draft.write_bytes(body)
        draft.rename(folder / name)


class Copies:
    """All copies of a folder, by the ids of the prompts."""

    def __init__(self, folder: Path) -> None:
        self.by_prompt: Mapping[str, Copy] = {file.stem: _read(file) for file in sorted(folder.glob("*.json"))}
        self._said: dict[tuple[frozenset[str], int], Said] = {}

    def truth(self, prompts: frozenset[str], picture: int) -> Said:
        """What exactly these prompts say of the picture, by the library alone."""
        if (prompts, picture) not in self._said:
            images = torch.stack([backbone().preprocessing(decode(picture_bytes(picture)))])
            [answer] = self._predictor.predict(images, [sorted(prompts)])
            scores = dict(zip(answer.labels, answer.scores.tolist(), strict=True))
            self._said[prompts, picture] = Said(scores, answer.set_digest)
        return self._said[prompts, picture]

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(backbone(), {name: prompt_from_bytes(copy.data) for name, copy in self.by_prompt.items()})


def _read(file: Path) -> Copy:
    told = json.loads(file.read_bytes())
    data = file.with_suffix(".safetensors").read_bytes()
    return Copy(told["source"], told["shard"], told["generation"], frozenset(told["samples"]), data)
