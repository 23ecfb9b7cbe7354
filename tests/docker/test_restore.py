"""Backup and restore as the deployment page describes them."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.fixtures import draw, run


def copy_rows(home: Path, backup: Path) -> None:
    backup.mkdir()
    with (
        closing(sqlite3.connect(home / "registry.db")) as rows,
        closing(sqlite3.connect(backup / "registry.db")) as there,
    ):
        rows.backup(there)


def copy_objects(home: Path, backup: Path) -> None:
    shutil.copytree(home / "objects", backup / "objects")
    shutil.copy(home / "signing-key.pem", backup)


def succeed(*arguments: str | Path) -> str:
    ended = run(*arguments)
    assert ended.code == 0, ended.err
    return ended.out


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry with the pictures of two owners."""
    home = tmp_path / "home"
    monkeypatch.setenv("ALACARTE_HOME", str(home))
    succeed("db", "upgrade")
    succeed("task", "add", "animals")
    for name in ("ann", "bob"):
        succeed("user", "add", name, "--role", "owner")
        folder = draw(tmp_path / name, each=2)
        succeed("source", "add", f"{name}-pets", folder, "--task", "animals", "--owner", name)
    return home


def test_objects_uploaded_between_both_copies_are_removed_by_the_doctor(home: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    copy_rows(home, backup)
    succeed("source", "add", "late", tmp_path / "ann", "--task", "animals", "--owner", "ann")
    copy_objects(home, backup)
    shutil.rmtree(home)
    backup.rename(home)

    assert run("doctor").code == 1
    succeed("doctor", "--repair")

    assert "Nothing is wrong." in run("doctor").err
    assert [source["name"] for source in run("source", "list", "--json").document["sources"]] == [
        "ann-pets",
        "bob-pets",
    ]


def test_a_receipt_shows_after_a_restore_what_must_be_forgotten_again(home: Path, tmp_path: Path) -> None:
    backup, receipt = tmp_path / "backup", tmp_path / "receipt.json"
    copy_rows(home, backup)
    copy_objects(home, backup)
    erasure = run("source", "forget", "bob-pets", "--json").document["id"]
    succeed("erasure", "receipt", erasure, "--out", receipt)
    succeed("erasure", "verify", receipt)
    shutil.rmtree(home)
    backup.rename(home)

    verdict = run("erasure", "verify", receipt, "--json")
    assert verdict.code == 1
    failed = {check["name"] for check in verdict.document["checks"] if not check["ok"]}
    assert {"objects", "rows"} <= failed

    again = run("source", "forget", "bob-pets", "--json").document["id"]
    succeed("erasure", "receipt", again, "--out", tmp_path / "again.json")
    succeed("erasure", "verify", tmp_path / "again.json")
    succeed("doctor")


def test_receipts_of_a_key_that_was_replaced_can_still_be_checked(home: Path, tmp_path: Path) -> None:
    erasure = run("source", "forget", "bob-pets", "--json").document["id"]
    succeed("erasure", "receipt", erasure, "--out", tmp_path / "receipt.json")
    before = succeed("erasure", "key")
    (home / "signing-key.pem").unlink()

    assert succeed("erasure", "key") != before
    succeed("erasure", "verify", tmp_path / "receipt.json")
