"""Forgetting, publishing, uploading and granting, each begun while others are half-way, against a plain model."""

import secrets
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from registry.database import Database
from registry.objects.folder import FolderStore
from registry.objects.s3 import S3Store
from registry.objects.s3_client import S3Settings
from registry.registry import Registry
from registry.scratch import ScratchHome
from registry.signing import open_signer
from tests.registry.orders.machine import Orders
from tests.servers.postgres import PostgresServer

STEADY = {"phases": [Phase.generate], "deadline": None, "suppress_health_check": list(HealthCheck)}


def test_whatever_happens_in_between_the_registry_agrees_with_the_model(sqlite_template: Path, tmp_path: Path) -> None:
    def make() -> Registry:
        folder = tmp_path / secrets.token_hex(8)
        folder.mkdir()
        (folder / "registry.db").write_bytes(sqlite_template.read_bytes())
        store = FolderStore(folder / "objects")
        store.prepare()
        return Registry(
            Database(f"sqlite:///{folder / 'registry.db'}"),
            store,
            ScratchHome(folder / "scratch"),
            open_signer(tmp_path / "key.pem"),
        )

    class OnSqlite(Orders):
        make_registry = staticmethod(make)

    run_state_machine_as_test(
        OnSqlite,
        settings=settings(max_examples=40, stateful_step_count=25, **STEADY),  # type: ignore[arg-type]
    )


def test_it_does_so_on_postgresql_and_s3_too(
    postgres_server: PostgresServer, postgres_template: str, s3_settings: S3Settings, tmp_path: Path
) -> None:
    store = S3Store(s3_settings)
    store.prepare()

    def make() -> Registry:
        store.remove("")
        return Registry(
            Database(postgres_server.make_database(template=postgres_template)),
            store,
            ScratchHome(tmp_path / secrets.token_hex(8)),
            open_signer(tmp_path / "key.pem"),
        )

    class OnPostgres(Orders):
        make_registry = staticmethod(make)

    run_state_machine_as_test(
        OnPostgres,
        settings=settings(max_examples=10, stateful_step_count=25, **STEADY),  # type: ignore[arg-type]
    )
