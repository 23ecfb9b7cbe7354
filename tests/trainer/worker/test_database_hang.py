"""A database that hangs, and breaks no connection, holds up no worker for ever."""

import threading
from pathlib import Path

import pytest

from alacarte.prompting.backbone.vit import Backbone
from registry.db import migrate
from registry.db.database import Database
from registry.log.signing import open_signer
from registry.registry import Registry
from registry.storage.folder import FolderStore
from registry.storage.ownership import mark_store
from registry.storage.scratch import ScratchSpace
from tests.servers.postgres import serve_postgres
from tests.trainer.worker.fixtures import (
    ENDLESS,
    add_source,
    add_task,
    files_in_scratch,
    is_training,
    pictures_in_scratch,
    running,
    shards_of,
    wait_for,
    worker_on,
)
from trainer.worker import heartbeat, maintenance
from trainer.worker.worker import JobCounts


def left_behind() -> list[str]:
    """The threads of a worker that has ended."""
    return [one.name for one in threading.enumerate() if one.name.startswith(("heartbeat", "housekeeping"))]


def test_a_database_that_hangs_keeps_no_picture_in_scratch_and_no_worker_from_its_end(
    folder_store: FolderStore, backbone: Backbone, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pictures go before anything is asked of the database; the worker itself ends when that was asked in vain."""
    monkeypatch.setattr("registry.db.database.CONNECT_SECONDS", 2)
    monkeypatch.setattr(heartbeat, "LEAVE_SECONDS", 0.1)
    monkeypatch.setattr(maintenance, "LEAVE_SECONDS", 0.1)
    with serve_postgres() as server:
        database = Database(server.url, response_timeout_seconds=5)
        migrate.upgrade(database)
        mark_store(database, folder_store)
        registry = Registry(database, folder_store, ScratchSpace(tmp_path / "scratch"), open_signer(tmp_path / "key"))
        source = add_source(registry, add_task(registry, ENDLESS), pictures)
        with running(worker_on(registry, backbone)) as run:
            wait_for(lambda: is_training(registry, source), "the training")
            assert pictures_in_scratch(registry)
            server.freeze()

            run.stop.set()
            wait_for(lambda: not files_in_scratch(registry), "an empty scratch")
            assert run.end() == JobCounts(published=0, failed=0, lost=0)

            server.thaw()
        wait_for(lambda: not left_behind(), "the end of the threads that were left behind")
        assert shards_of(registry, source)[0].lease_id is not None  # it runs out, and another worker takes over
        database.close()
