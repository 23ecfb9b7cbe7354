"""Processes that are killed while they work on a registry, and searches for what they leave behind."""

import io
import multiprocessing
import random
import signal
import zipfile
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from PIL import Image
from sqlalchemy import update

from registry.access.caller import OPERATOR
from registry.catalog.tasks import create_task
from registry.db.clock import now, seconds_from_now
from registry.db.models.catalog import Shard
from registry.db.models.erasures import Erasure
from registry.db.models.write_claims import WriteClaim
from registry.registry import Registry
from registry.storage import write_claims
from registry.storage.ownership import OWNERSHIP_KEY
from registry.storage.s3 import S3Store
from tests.registry.crash import child
from tests.registry.crash.search_bytes import find_bytes, list_bucket

Kill = Callable[..., None]
ListKeys = Callable[[], list[str]]


@pytest.fixture
def kill(environment: dict[str, str]) -> Kill:
    """Run an action in a child process, which must kill itself at the failpoint."""
    # Forked from a server process that has imported everything and opened nothing, which is fast.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([child.__name__])

    def run(action: str, point: str, *arguments: object) -> None:
        process = context.Process(target=child.main, args=(environment, action, point, *map(str, arguments)))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, f"the failpoint {point!r} was not hit"

    return run


@pytest.fixture
def task_id(registry: Registry) -> UUID:
    with registry.database.write_transaction() as session:
        return create_task(session, OPERATOR, "animals", backbone="vit_tiny_patch16_224").id


def write_archive(path: Path, seed: int, each: int = 6) -> dict[str, bytes]:
    """Write an archive of different small pictures of two labels; return their bytes by name."""
    rng, bodies = random.Random(seed), {}
    for label in ("cat", "dog"):
        for number in range(each):
            buffer = io.BytesIO()
            Image.frombytes("RGB", (12, 12), rng.randbytes(12 * 12 * 3)).save(buffer, "PNG")
            bodies[f"{label}/secret-{seed}-{number}.png"] = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in bodies.items():
            archive.writestr(name, body)
    return bodies


def expire_everything(registry: Registry) -> None:
    """Expire all leases and claims, and end every back-off."""
    with registry.database.write_transaction() as session:
        session.execute(update(WriteClaim).values(expires_at=seconds_from_now(-1)))
        session.execute(update(Shard).where(Shard.lease_id.is_not(None)).values(expires_at=seconds_from_now(-1)))
        session.execute(update(Shard).values(not_before=None))
        session.execute(update(Erasure).values(not_before=now()))


def clean_up(registry: Registry) -> None:
    """Expire everything, and clean up as the service does periodically."""
    expire_everything(registry)
    write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch)


@pytest.fixture
def stored_keys(registry: Registry, request: pytest.FixtureRequest, tmp_path: Path) -> ListKeys:
    """List all keys in the object store without the code under test."""

    def list_all() -> list[str]:
        if isinstance(registry.objects, S3Store):
            settings = request.getfixturevalue("s3_settings")
            keys = list_bucket(request.getfixturevalue("s3_server"), settings)
            found = [key.removeprefix(f"{settings.prefix}/") for key in keys]
        else:
            below = tmp_path / "objects"
            found = sorted(str(file.relative_to(below)) for file in below.rglob("*") if file.is_file())
        return [key for key in found if key != OWNERSHIP_KEY]

    return list_all


@pytest.fixture
def search(registry: Registry, tmp_path: Path) -> Callable[..., list[tuple[str, bytes]]]:
    """Search the object folder, the scratch folder, the database file and its WAL for byte strings."""

    def search(*needles: bytes) -> list[tuple[str, bytes]]:
        places = [tmp_path / "objects", tmp_path / "scratch"]
        for name in ("registry.db", "registry.db-wal", "registry.db-shm"):
            if (tmp_path / name).exists():
                copy = tmp_path / "database copy" / name
                copy.parent.mkdir(exist_ok=True)
                copy.write_bytes((tmp_path / name).read_bytes())
        return find_bytes(needles, *(place for place in [*places, tmp_path / "database copy"] if place.exists()))

    return search
