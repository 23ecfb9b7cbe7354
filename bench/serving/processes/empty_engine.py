"""The service without computation: `python -m bench.serving.processes.empty_engine --port N`.

HTTP, rights and decoding are as usual; the engine and the composition return constants.
"""

import argparse
from collections.abc import Sequence
from uuid import UUID

import torch

import service.app
import service.prediction.predict
from alacarte.api.literals import Composition, Weighting
from alacarte.cli.commands.serve import serve
from alacarte.prompting.predict import ImagePrediction
from registry.access.usable_prompts import TaskConfig, UsablePrompt
from service.engine.engine import Engine
from service.engine.job import PictureLogits

LABELS = ("label-000", "label-001", "label-002", "label-003", "label-004")


class EmptyEngine(Engine):
    """Decodes the pictures, and returns empty logits."""

    async def run(
        self,
        task: TaskConfig,
        pictures: Sequence[bytes],
        prompts: Sequence[UsablePrompt],  # noqa: ARG002  # the engine's signature
        *,
        user: UUID,
        deadline: float,  # noqa: ARG002
    ) -> list[PictureLogits]:
        """Return one empty result per picture."""
        preprocessing = (await self._backbones.get(task)).preprocessing
        for picture in pictures:
            await self._decoder.decode(picture, preprocessing, "the picture", user)
        return [PictureLogits({}, {}, torch.empty(0)) for _ in pictures]


def compose_constant(
    _prompts: Sequence[UsablePrompt], logits: Sequence[PictureLogits], _composition: Composition, _weighting: Weighting
) -> list[ImagePrediction]:
    """Return the same prediction for each picture."""
    return [ImagePrediction(LABELS, torch.full((len(LABELS),), 0.2), (), "0" * 64) for _ in logits]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    setattr(service.app, "Engine", EmptyEngine)  # noqa: B010  # used by create_app
    setattr(service.prediction.predict, "compose", compose_constant)  # noqa: B010
    serve(port=parser.parse_args().port)
