"""What a journey is held against: the published bytes, what they say without a service, and who an answer rests on."""

from pathlib import Path

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
from trainer.named_recipes import recipe_from_settings
from trainer.train import train_shard


def published(registry: Registry, *sources: str) -> dict[str, bytes]:
    """The bytes of the sources' prompts, by the ids of the prompts."""
    with registry.database.reading() as session:
        rows = [row for row in session.scalars(select(Prompt)) if str(row.source_id) in sources]
    return {str(row.id): registry.objects.read(row.key, row.digest) for row in rows}


def directly(backbone: Backbone, prompts: dict[str, bytes], picture: Path) -> ImagePrediction:
    """What the published artifacts say without any service."""
    images = torch.stack([backbone.preprocessing(decode(picture))])
    predictor = Predictor(backbone, {name: prompt_from_bytes(data) for name, data in prompts.items()})
    return predictor.predict(images, [list(prompts)])[0]


def never_seen(registry: Registry, backbone: Backbone, shard: str, pictures: Path) -> str:
    """The digest of what the shard's samples teach when they are all that there ever was."""
    with registry.database.reading() as session:
        [row] = [row for row in session.scalars(select(Shard)) if str(row.id) == shard]
        rows = session.scalars(select(Sample).where(Sample.shard_id == row.id)).all()
    samples = [as_sample(pictures / sample.name, sample.label) for sample in rows]
    recipe = recipe_from_settings({"epochs": 1, "augment": "none"}, row.seed)
    return prompt_digest(prompt_to_bytes(train_shard(backbone, samples, recipe, cache_bytes=0)))


def prompts_in(client: Client, picture: Path) -> set[str]:
    """The ids of the prompts that an answer rests on."""
    said = client.predict(picture, explain=True).explain
    return {prompt.prompt for source in said or () for prompt in source.prompts}
