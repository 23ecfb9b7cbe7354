"""The inputs of the serving benchmark: pictures, and a registry with prompts and users."""

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageOps
from sklearn.datasets import load_sample_images

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import prompt_to_bytes
from bench.forward import random_prompts
from registry.access.caller import OPERATOR
from registry.access.grants import grant_right
from registry.access.tokens import issue_token
from registry.access.users import create_user
from registry.catalog.sources import create_source
from registry.catalog.tasks import create_task
from registry.registry import open_registry, upgrade_registry
from registry.settings import RegistrySettings
from registry.training.publish import PublishedMetadata, publish_remote

SOURCES = 100  # each with one prompt
USERS = 8  # for each number of prompts
TASK = "bench"
PICTURES = 32
PICTURE_WIDTH, PICTURE_HEIGHT = 500, 375  # typical of ImageNet
JPEG_QUALITY = 90


@dataclass(frozen=True)
class BenchTokens:
    """The tokens of an admin, and of users by the number of prompts that they may use."""

    admin: str
    users: dict[int, list[str]]


def make_registry(home: Path, backbone: Backbone, counts: Sequence[int]) -> BenchTokens:
    """Create a registry on SQLite and a folder, with users who may use random sources of a common pool."""
    settings = RegistrySettings(home=home, database="", objects="")
    upgrade_registry(settings)
    registry = open_registry(settings)
    generator = random.Random(0)
    with registry.database.write_transaction() as session:
        owner = create_user(session, OPERATOR, "owner", "owner")
        admin = create_user(session, OPERATOR, "admin", "admin")
        admin_token = issue_token(session, OPERATOR, admin.id).text
        task = create_task(session, OPERATOR, TASK, backbone=backbone.architecture)
        sources = [
            create_source(session, OPERATOR, task.id, f"source {number}", owner.id).id for number in range(SOURCES)
        ]
    for source, prompt in zip(sources, random_prompts(backbone, SOURCES), strict=True):
        publish_remote(
            registry, OPERATOR, source, prompt_to_bytes(prompt), PublishedMetadata.from_artifact(prompt.metadata)
        )
    users: dict[int, list[str]] = {}
    with registry.database.write_transaction() as session:
        for count in counts:
            users[count] = []
            for number in range(USERS):
                user = create_user(session, OPERATOR, f"user {number} with {count}")
                for source in generator.sample(sources, count):
                    grant_right(session, OPERATOR, user.id, source, "use")
                users[count].append(issue_token(session, OPERATOR, user.id).text)
    registry.database.close()
    return BenchTokens(admin_token, users)


def make_pictures(count: int = PICTURES) -> list[bytes]:
    """Cut different JPEG files out of the two photographs of scikit-learn; always the same ones."""
    generator = random.Random(0)
    photographs = [Image.fromarray(pixels) for pixels in load_sample_images().images]
    pictures = []
    for number in range(count):
        whole = photographs[number % len(photographs)]
        left = generator.randint(0, whole.width - PICTURE_WIDTH)
        top = generator.randint(0, whole.height - PICTURE_HEIGHT)
        part = whole.crop((left, top, left + PICTURE_WIDTH, top + PICTURE_HEIGHT))
        file = io.BytesIO()
        (ImageOps.mirror(part) if generator.random() < 0.5 else part).save(file, "JPEG", quality=JPEG_QUALITY)
        pictures.append(file.getvalue())
    return pictures
