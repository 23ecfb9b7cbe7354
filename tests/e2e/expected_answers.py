"""Compare answers with those that the library computes from the published prompts, without a service."""

from pathlib import Path
from uuid import UUID

import pytest
import torch
from sqlalchemy import select

from alacarte.api.predictions import Prediction
from alacarte.client import Client
from alacarte.prompting.backbone.preprocess import decode
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.predict import ImagePrediction, Predictor
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_from_bytes, prompt_to_bytes
from alacarte.prompting.threads import one_thread
from registry.db.models.catalog import Sample, Shard
from registry.db.models.prompts import Prompt
from registry.registry import Registry
from tests.trainer.pictures import as_sample
from trainer.recipe import recipe_from_settings
from trainer.train import train_shard

WAIT_SECONDS = 240


def published(registry: Registry, *sources: UUID) -> dict[str, bytes]:
    """Read the bytes of the sources' prompts by prompt id."""
    with registry.database.read_transaction() as session:
        rows = [row for row in session.scalars(select(Prompt)) if row.source_id in sources]
    return {str(row.id): registry.objects.read(row.key, row.digest) for row in rows}


def predict_directly(backbone: Backbone, prompts: dict[str, bytes], picture: Path) -> ImagePrediction:
    images = torch.stack([backbone.preprocessing(decode(picture))])
    predictor = Predictor(backbone, {name: prompt_from_bytes(data) for name, data in prompts.items()})
    return predictor.predict(images, [list(prompts)])[0]


def assert_answer(answer: Prediction, expected: ImagePrediction) -> None:
    assert answer.set_digest == expected.set_digest
    assert [one.label for one in answer.labels] == list(expected.labels)
    assert [one.score for one in answer.labels] == pytest.approx(expected.scores.tolist(), abs=1e-4)


def assert_picture_is_forgotten(
    registry: Registry, backbone: Backbone, admin: Client, user: Client, pictures: Path, source: UUID, *others: UUID
) -> None:
    """Forget a picture of the source: its prompt is dropped at once, and a new one is trained without it."""
    picture = next(pictures.rglob("*.png"))
    sample, count = admin.list_samples(source)[0], admin.get_source(source).samples
    old = published(registry, source).keys()

    forgotten = admin.forget_sample(source, sample.digest)

    assert len(old - prompts_in(user, picture)) == 1
    assert admin.get_source(source).samples == count - 1
    state = admin.wait_until_trained(source, WAIT_SECONDS)
    assert {shard.id: shard.generation for shard in state.shards}[sample.shard_id] == 2
    now = published(registry, source)
    assert len(old - now.keys()) == 1
    [new] = [prompt_digest(data) for prompt, data in now.items() if prompt not in old]
    with one_thread():
        assert new == digest_without_forgotten(registry, backbone, sample.shard_id, pictures)
    assert prompts_in(user, picture) == published(registry, source, *others).keys()
    assert admin.verify_receipt(admin.wait_for_erasure(forgotten.id, WAIT_SECONDS).id).holds


def digest_without_forgotten(registry: Registry, backbone: Backbone, shard: UUID, pictures: Path) -> str:
    """Train a prompt on exactly the shard's current samples and return its digest."""
    with registry.database.read_transaction() as session:
        [row] = [row for row in session.scalars(select(Shard)) if row.id == shard]
        rows = session.scalars(select(Sample).where(Sample.shard_id == row.id)).all()
    samples = [as_sample(pictures / sample.name, sample.label) for sample in rows]
    recipe = recipe_from_settings({"epochs": 1, "augment": "none"}, row.seed)
    return prompt_digest(prompt_to_bytes(train_shard(backbone, samples, recipe, cache_bytes=0)))


def prompts_in(client: Client, picture: Path) -> set[str]:
    """Return the ids of the prompts that an answer names."""
    explanation = client.predict(picture, explain=True).explain
    return {str(prompt.prompt) for source in explanation or () for prompt in source.prompts}
