"""A worker ends although the database hangs without closing connections."""

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
from tests.servers.processes import wait_until
from tests.trainer.worker.fixtures import ENDLESS, WorkerHarness
from trainer.worker import maintenance
from trainer.worker.worker import JobCounts


def worker_threads() -> list[str]:
    """The names of the threads that workers have started."""
    return [one.name for one in threading.enumerate() if one.name.startswith(("heartbeat", "maintenance"))]


def test_when_the_database_hangs_the_pictures_are_removed_and_the_worker_ends(
    folder_store: FolderStore, backbone: Backbone, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pictures are removed before the database is asked; the worker ends after the database's timeout."""
    monkeypatch.setattr("registry.db.database.CONNECT_SECONDS", 2)
    monkeypatch.setattr("registry.db.heartbeat.JOIN_SECONDS", 0.1)
    monkeypatch.setattr(maintenance, "JOIN_SECONDS", 0.1)
    with serve_postgres() as server:
        database = Database(server.url, response_timeout_seconds=5)
        migrate.upgrade(database)
        mark_store(database, folder_store)
        registry = Registry(database, folder_store, ScratchSpace(tmp_path / "scratch"), open_signer(tmp_path / "key"))
        harness = WorkerHarness(registry, backbone, pictures)
        source = harness.add_source(harness.add_task(ENDLESS))
        with harness.run_worker() as run:
            harness.wait_for_training(source)
            assert harness.list_scratch_pictures()
            server.freeze()

            run.stop.set()
            wait_until(lambda: not harness.list_scratch(), "an empty scratch")
            assert run.end() == JobCounts(published=0, failed=0, lost=0)

            server.thaw()
        wait_until(lambda: not worker_threads(), "the end of the worker's threads")
        assert harness.load_shards(source)[0].lease_id is not None  # it runs out, and another worker takes over
        database.close()
