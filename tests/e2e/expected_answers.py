"""Expected answers, computed by the library from the published prompts, without a service."""

from pathlib import Path
from uuid import UUID

import torch
from sqlalchemy import select

from alacarte.client import Client
from alacarte.prompting.backbone.preprocess import decode
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.predict import ImagePrediction, Predictor
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_from_bytes, prompt_to_bytes
from registry.db.models.catalog import Sample, Shard
from registry.db.models.prompts import Prompt
from registry.registry import Registry
from tests.trainer.pictures import as_sample
from trainer.recipe import recipe_from_settings
from trainer.train import train_shard


def published(registry: Registry, *sources: UUID) -> dict[str, bytes]:
    """Read the bytes of the sources' prompts by prompt id."""
    with registry.database.read_transaction() as session:
        rows = [row for row in session.scalars(select(Prompt)) if row.source_id in sources]
    return {str(row.id): registry.objects.read(row.key, row.digest) for row in rows}


def predict_directly(backbone: Backbone, prompts: dict[str, bytes], picture: Path) -> ImagePrediction:
    """Predict with these artifacts and the library alone."""
    images = torch.stack([backbone.preprocessing(decode(picture))])
    predictor = Predictor(backbone, {name: prompt_from_bytes(data) for name, data in prompts.items()})
    return predictor.predict(images, [list(prompts)])[0]


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
