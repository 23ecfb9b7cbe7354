"""The service with nothing to compute: HTTP, rights and decoding. `python -m bench.serving.empty_engine --port N`."""

import argparse
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

import torch

import service.app
from alacarte.cli.serve import serve
from alacarte.prompting.compose import Composition, Weighting
from alacarte.prompting.predict import Answer
from registry.usable_set import TaskFacts, UsablePrompt
from service.engine.engine import Compose, Engine

T = TypeVar("T")
LABELS = ("label-000", "label-001", "label-002", "label-003", "label-004")


class EmptyEngine(Engine):
    """Decodes the pictures, and answers the same whatever they show."""

    async def answer(
        self,
        task: TaskFacts,
        pictures: Sequence[bytes],
        prompts: Sequence[UsablePrompt],  # noqa: ARG002  # the engine's signature
        composition: Composition,  # noqa: ARG002
        weighting: Weighting,  # noqa: ARG002
        *,
        user: UUID,
        deadline: float,  # noqa: ARG002
        finish: Callable[[Compose], Awaitable[T]],
    ) -> T:
        """What is made of one answer a picture, without a pass."""
        preprocessing = (await self._backbones.get(task)).preprocessing
        for picture in pictures:
            await self._decoders.decode(picture, preprocessing, "the picture", user)
        answers = [Answer(LABELS, torch.full((len(LABELS),), 0.2), (), "0" * 64) for _ in pictures]
        return await finish(lambda: answers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    setattr(service.app, "Engine", EmptyEngine)  # noqa: B010  # what the service is made with
    serve(port=parser.parse_args().port)
