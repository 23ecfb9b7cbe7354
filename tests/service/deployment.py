"""A deployment for tests: a registry with one user of each kind and a source with a prompt, and its service."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any
from uuid import UUID

import httpx
from PIL import Image
from sqlalchemy import select

from alacarte.api.literals import Right
from alacarte.prompting.backbone.vit import Backbone, build_backbone
from alacarte.prompting.prompt.artifact import prompt_to_bytes
from registry.access.caller import OPERATOR
from registry.access.grants import grant_right
from registry.access.tokens import issue_token
from registry.access.users import create_user
from registry.catalog.sources import create_source
from registry.catalog.tasks import create_task
from registry.db.models.catalog import Sample, Shard
from registry.registry import Registry
from registry.training.publish import PublishedMetadata, publish_remote
from tests.prompting.reference import small_prompt
from tests.registry.factories import make_shard

BACKBONE = "vit_tiny_patch16_224"
SIZE = 32
TASK = "animals"
LABELS = ("cat", "dog", "owl")
GRANTED: dict[str, Right] = {"user": "use", "manager": "manage", "forgetter": "forget"}
USERS = ("admin", "owner", *GRANTED, "stranger")
GARBAGE = "alc_abcdefghijkl_" + "x" * 43

_numbers = count()


@cache
def backbone() -> Backbone:
    """Return the backbone that a service with random weights builds for the task."""
    return build_backbone(BACKBONE, "random", SIZE, log=lambda _: None)


@cache
def prompt_bytes(seed: int = 0, labels: tuple[str, ...] = LABELS) -> bytes:
    return prompt_to_bytes(small_prompt(backbone(), seed=seed, labels=labels))


def picture(number: int = 0, side: int = 20, kind: str = "PNG") -> bytes:
    """Return a small picture; each number gives another."""
    file = io.BytesIO()
    Image.new("RGB", (side, side), (number % 256, 40, 200 - number % 200)).save(file, kind)
    return file.getvalue()


def archive(files: Mapping[str, bytes] | None = None) -> bytes:
    """Return a zip of class folders."""
    if files is None:
        files = {f"{label}/{n}.png": picture(10 * n + len(label) + ord(label[0])) for label in LABELS for n in range(2)}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return file.getvalue()


@dataclass
class Deployment:
    """A registry, the tokens of its users, and an HTTP client of its service."""

    registry: Registry
    url: str = ""
    tokens: dict[str, str] = field(default_factory=dict)
    users: dict[str, UUID] = field(default_factory=dict)
    task: UUID = field(default_factory=lambda: UUID(int=0))
    source: UUID = field(default_factory=lambda: UUID(int=0))  # one with a prompt
    client: httpx.Client = field(default_factory=lambda: httpx.Client(verify=False, timeout=60))

    def __post_init__(self) -> None:
        with self.registry.database.write_transaction() as session:
            for name in USERS:
                role = name if name in ("admin", "owner") else "predictor"
                self.users[name] = create_user(session, OPERATOR, name, role).id  # type: ignore[arg-type]
                self.tokens[name] = issue_token(session, OPERATOR, self.users[name]).text
            self.task = create_task(session, OPERATOR, TASK, backbone=BACKBONE, size=SIZE, recipe={"epochs": 1}).id
        self.source = self.add_source(seeds=[0])

    def request(self, who: str | None, method: str, path: str, **options: Any) -> httpx.Response:  # Any: httpx's
        """Send a request as that user, without a token, or with `who` as the token."""
        headers = dict(options.pop("headers", {}))
        if who is not None:
            headers["Authorization"] = f"Bearer {self.tokens.get(who, who)}"
        return self.client.request(method, self.url + path, headers=headers, **options)

    def new_name(self, kind: str = "thing") -> str:
        return f"{kind} {next(_numbers)}"

    def predict(self, who: str = "user", image: bytes | None = None, **fields: Any) -> httpx.Response:
        files = {"image": picture() if image is None else image}
        return self.request(who, "POST", "/predict", files=files, data={"task": TASK, **fields})

    def issue_token(self, who: str = "user") -> tuple[str, str]:
        """Return the id and the text of a new token."""
        issued = self.request("admin", "POST", "/tokens", json={"user": str(self.users[who])}).json()
        return issued["id"], issued["text"]

    def metric(self, name: str) -> float:
        """Return the value of a metric, which may have labels."""
        metrics = self.request("admin", "GET", "/metrics").text
        return float(metrics.partition(f"\n{name} ")[2].split()[0])

    def add_source(self, samples: int = 0, seeds: Sequence[int] = ()) -> UUID:
        """Add a source of the owner, with the grants; samples have rows and no objects, and each seed is a prompt."""
        with self.registry.database.write_transaction() as session:
            made = create_source(session, OPERATOR, self.task, self.new_name("source"), self.users["owner"])
            for who, right in GRANTED.items():
                grant_right(session, OPERATOR, self.users[who], made.id, right)
            if samples:
                make_shard(session, made, samples)
        for seed in seeds:
            self.publish(made.id, seed)
        return made.id

    def add_user(self, *, is_group: bool = False) -> UUID:
        with self.registry.database.write_transaction() as session:
            return create_user(session, OPERATOR, self.new_name("user"), is_group=is_group).id

    def publish(self, source: UUID, seed: int = 0, labels: tuple[str, ...] = LABELS) -> UUID:
        """Publish a prompt of the source in a new shard, and return the shard."""
        facts = PublishedMetadata(identity=backbone().identity, labels=labels, samples=3, extra={})
        return publish_remote(self.registry, OPERATOR, source, prompt_bytes(seed, labels), facts).shard_id

    def shard_of(self, source: UUID) -> UUID:
        with self.registry.database.read_transaction() as session:
            return session.scalars(select(Shard.id).where(Shard.source_id == source)).first() or UUID(int=0)

    def sample_of(self, source: UUID) -> str:
        with self.registry.database.read_transaction() as session:
            return session.scalars(select(Sample.digest).where(Sample.source_id == source)).first() or "0" * 64
