"""A store that is not mounted, or belongs to another registry, is never taken for an empty one."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from registry.access.caller import OPERATOR
from registry.catalog.tasks import create_task
from registry.db.database import Database
from registry.erasure.request import forget_source
from registry.erasure.runner import finish_erasure
from registry.fsck.repair import repair
from registry.fsck.scan import scan
from registry.ingest.upload import upload_source
from registry.registry import Registry
from registry.storage.folder import FolderStore
from registry.storage.ownership import OWNERSHIP_KEY, StoreOwnershipError, mark_store, require_own_store
from tests.registry.crash.conftest import write_archive
from tests.registry.database_fixtures import sqlite_only


@pytest.fixture
def empty(tmp_path: Path) -> FolderStore:
    """What a mount point looks like while its disk is away."""
    store = FolderStore(tmp_path / "mount point")
    store.prepare()
    return store


def upload(registry: Registry, tmp_path: Path) -> UUID:
    write_archive(tmp_path / "pictures.zip", seed=1)
    with registry.database.write_transaction() as session:
        task = create_task(session, OPERATOR, "animals", backbone="vit_tiny_patch16_224").id
    return upload_source(registry, OPERATOR, task, "pets", tmp_path / "pictures.zip").source_id


def test_a_marked_store_is_accepted_and_may_be_marked_again(registry: Registry) -> None:
    mark_store(registry.database, registry.objects)

    require_own_store(registry.database, registry.objects)


def test_a_store_without_the_registrys_id_accepts_no_upload(
    registry: Registry, empty: FolderStore, tmp_path: Path
) -> None:
    with pytest.raises(StoreOwnershipError, match="disk is mounted"):
        upload(replace(registry, objects=empty), tmp_path)

    assert list(empty.list_all("")) == []


@sqlite_only
def test_nothing_is_signed_while_the_disk_is_not_mounted(
    registry: Registry, empty: FolderStore, tmp_path: Path
) -> None:
    source = upload(registry, tmp_path)
    away = replace(registry, objects=empty)
    erasure = forget_source(away, OPERATOR, source)

    assert finish_erasure(away, erasure.id).state == "running"
    with pytest.raises(StoreOwnershipError):  # nor can the empty place be made ours meanwhile
        mark_store(registry.database, empty)
    assert finish_erasure(away, erasure.id).state == "running"

    assert finish_erasure(registry, erasure.id).state == "complete"
    assert list(registry.objects.list_all("sources/")) == []


@sqlite_only
def test_the_store_of_another_registry_is_neither_marked_nor_repaired(
    registry: Registry, sqlite_template: Path, tmp_path: Path
) -> None:
    upload(registry, tmp_path)
    (tmp_path / "other.db").write_bytes(sqlite_template.read_bytes())
    other = Database(f"sqlite:///{tmp_path / 'other.db'}")
    with other.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE installation SET registry_id = '00000000000070008000000000000001'")
    strange = replace(registry, database=other)
    before = [found.key for found in registry.objects.list_all("")]

    with pytest.raises(StoreOwnershipError, match="another registry"):
        mark_store(other, registry.objects)
    findings = list(scan(strange))
    assert findings
    with pytest.raises(StoreOwnershipError, match="another registry"):
        repair(strange, OPERATOR, findings)
    other.close()

    assert [found.key for found in registry.objects.list_all("")] == before


@sqlite_only
def test_a_store_without_an_id_gets_one_if_it_has_the_registrys_objects(
    registry: Registry, empty: FolderStore, tmp_path: Path
) -> None:
    upload(registry, tmp_path)
    registry.objects.remove(OWNERSHIP_KEY)

    with pytest.raises(StoreOwnershipError):
        mark_store(registry.database, empty)
    mark_store(registry.database, registry.objects)

    require_own_store(registry.database, registry.objects)
