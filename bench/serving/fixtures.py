"""A registry for the bench: a pool of sources with a prompt each, and users who may use so many of them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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

SOURCES = 100  # with a prompt each
USERS = 8  # of each number of prompts
TASK = "bench"


@dataclass(frozen=True)
class People:
    """Tokens: an admin's, and those of the users by the number of prompts that they may use."""

    admin: str
    users: dict[int, list[str]]


def make_people(home: Path, backbone: Backbone, counts: Sequence[int]) -> People:
    """Makes a registry on SQLite and a folder; every user has sources of their own choice from the pool."""
    settings = RegistrySettings(home=home, database="", objects="")
    upgrade_registry(settings)
    registry = open_registry(settings)
    chance = random.Random(0)
    with registry.database.write_transaction() as session:
        owner = create_user(session, OPERATOR, "owner", "owner")
        admin = create_user(session, OPERATOR, "admin", "admin")
        admin_token = issue_token(session, OPERATOR, admin.id).text
        task = create_task(session, OPERATOR, TASK, backbone=backbone.architecture)
        sources = [
            create_source(session, OPERATOR, task.id, f"source {number}", owner.id).id for number in range(SOURCES)
        ]
    _, prompts = random_prompts(backbone, SOURCES)
    for source, prompt in zip(sources, prompts.values(), strict=True):
        publish_remote(registry, OPERATOR, source, prompt_to_bytes(prompt), PublishedMetadata.of(prompt.metadata))
    users: dict[int, list[str]] = {}
    with registry.database.write_transaction() as session:
        for count in counts:
            users[count] = []
            for number in range(USERS):
                user = create_user(session, OPERATOR, f"user {number} with {count}")
                for source in chance.sample(sources, count):
                    grant_right(session, OPERATOR, user.id, source, "use")
                users[count].append(issue_token(session, OPERATOR, user.id).text)
    registry.database.close()
    return People(admin_token, users)
