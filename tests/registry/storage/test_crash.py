"""A killed writer leaves only unfinished items, which are not visible and which a removal deletes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from registry.storage.s3 import PART_BYTES
from registry.storage.s3_client import S3Settings
from registry.storage.store import ObjectStore
from tests.registry.storage.store_fixtures import FolderFixture, S3Fixture, digest, sorted_items
from tests.servers.processes import wait_until

KEY = "sources/one/samples/ab"
WRITER = f"""
import os, sys
from pathlib import Path
from registry.storage.factory import open_store
location, endpoint, body = sys.argv[1:]
store = open_store(location, endpoint=endpoint or None, region="us-east-1",
                   access_key=os.environ.get("TEST_KEY"), secret_key=os.environ.get("TEST_SECRET"))
store.put({KEY!r}, Path(body))
"""


def kill_in_the_middle(
    arguments: list[str], secrets: dict[str, str], body: Path, given: bytes, arrived: Callable[[], bool]
) -> None:
    """Kills a process that puts a body of which no more than the given bytes ever come, once those have arrived."""
    os.mkfifo(body)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, *arguments, str(body)], env=os.environ | secrets)
    try:
        with body.open("wb", buffering=0) as pipe:
            view = memoryview(given)
            while view:
                view = view[pipe.write(view) :]
            wait_until(arrived, "the first bytes in the store")
            assert writer.poll() is None
            writer.kill()
            writer.wait()
    finally:
        writer.kill()
        writer.wait()


def traced_bytes(store: ObjectStore) -> int:
    return sum(found.size_bytes for found in store.list_all(KEY))


def check_aftermath(store: ObjectStore, size_bytes: int) -> None:
    assert list(store.list_objects("")) == []
    assert sorted_items(store.list_all("")) == [(KEY, size_bytes, "unfinished")]
    assert sorted_items(store.list_all(KEY)) == [(KEY, size_bytes, "unfinished")]
    assert store.remove(KEY).size_bytes == size_bytes
    assert list(store.list_all("")) == []
    store.put(KEY, b"second try")
    assert store.read(KEY, digest(b"second try")) == b"second try"


def test_a_killed_writer_to_a_folder_leaves_only_an_unfinished_file(
    folder_fixture: FolderFixture, tmp_path: Path
) -> None:
    kill_in_the_middle(
        [str(folder_fixture.root), ""],
        {},
        tmp_path / "body",
        b"x" * (1024 * 1024 + 1),
        lambda: traced_bytes(folder_fixture.store) == 1024 * 1024,
    )
    check_aftermath(folder_fixture.store, 1024 * 1024)
    assert [path.name for path in folder_fixture.root.rglob("*") if path.is_file()] == ["ab"]


def test_a_killed_writer_to_a_bucket_leaves_only_an_unfinished_upload(
    versioned_fixture: S3Fixture, s3_settings: S3Settings, tmp_path: Path
) -> None:
    store_fixture = versioned_fixture
    assert s3_settings.access_key is not None
    assert s3_settings.secret_key is not None
    kill_in_the_middle(
        [f"s3://{store_fixture.bucket}/{store_fixture.prefix}", s3_settings.endpoint or ""],
        {"TEST_KEY": s3_settings.access_key, "TEST_SECRET": s3_settings.secret_key},
        tmp_path / "body",
        b"x" * (2 * PART_BYTES + 1),
        lambda: traced_bytes(store_fixture.store) == 2 * PART_BYTES,
    )
    check_aftermath(store_fixture.store, 2 * PART_BYTES)
    assert store_fixture.everything() == [f"{store_fixture.prefix}{KEY}"]


def test_a_body_that_fails_in_the_middle_leaves_nothing(
    s3_fixture: S3Fixture, folder_fixture: FolderFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = tmp_path / "body"
    with body.open("wb") as file:
        file.truncate(3 * PART_BYTES)
    for module in ("s3", "folder"):
        monkeypatch.setattr(f"registry.storage.{module}.iter_chunks", Mock(side_effect=KeyboardInterrupt))
    for store in (s3_fixture.store, folder_fixture.store):
        with pytest.raises(KeyboardInterrupt):
            store.put(KEY, body)
        assert list(store.list_all("")) == []
