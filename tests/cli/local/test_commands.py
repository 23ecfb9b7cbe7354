"""Commands on the registry of this machine, on both backends: tables, JSON documents, and errors in one line."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from registry.ids import new_id
from registry.registry import open_registry
from registry.settings import load_registry_settings
from registry.storage import write_claims
from registry.training.publish import PublishedMetadata, publish
from registry.training.queue import lease_shard
from tests.cli.fixtures import draw, run, run_json
from tests.registry.database_fixtures import sqlite_only

pytestmark = pytest.mark.usefixtures("at_home")
METADATA = PublishedMetadata(identity="1d" * 32, labels=("cat",), samples=1, extra={})


def train_all() -> None:
    registry = open_registry(load_registry_settings())
    while True:
        with lease_shard(registry, "test") as work:
            if work is None:
                break
            publish(registry, work[0], b"numbers" + work[0].id.bytes, METADATA)
    registry.database.close()


def test_a_source_from_upload_to_receipt(pictures: Path, tmp_path: Path) -> None:
    task = run_json("task", "add", "animals", "--recipe", '{"epochs": 3}')
    run_json("user", "add", "ann", "--role", "owner")
    run_json("user", "add", "bob")
    run_json("user", "add", "students", "--group")
    run_json("user", "join", "students", "bob")
    upload = run_json("source", "add", "pets", pictures, "--task", "animals", "--owner", "ann", "--shards", "2")
    assert (upload["samples"], upload["skipped_files"]) == (24, [])
    assert [shard["state"] for shard in run_json("source", "show", "pets")["shards"]] == ["waiting", "waiting"]
    train_all()
    assert run_json("source", "list")["sources"][0]["trained"] == 2
    run_json("release", "pin", "v1", "--task", "animals")
    grant = run_json("grant", "add", "students", "pets")
    assert (grant["user"], grant["right"]) == ("students", "use")
    token = run_json("token", "issue", "bob", "--days", "7")
    assert token["token"].startswith(f"alc_{token['prefix']}_")
    assert token["token"] not in json.dumps(run_json("token", "list"))

    assert "nothing to add" in run("source", "extend", "pets", pictures).error
    sample = run_json("source", "samples", "pets")["samples"][0]
    assert run_json("source", "forget", "pets", "--sample", sample["digest"])["state"] == "complete"
    assert {shard["state"] for shard in run_json("source", "show", "pets")["shards"]} == {"waiting", "trained"}
    assert "--readmit" in run("source", "extend", "pets", pictures, "--json").error
    assert run_json("source", "extend", "pets", pictures, "--readmit")["samples"] == 1

    gone = run_json("source", "forget", "pets")
    assert gone["state"] == "complete"
    assert run_json("source", "forget", gone["source_id"])["id"] == gone["id"]  # a repeated request starts nothing new
    release = run_json("release", "show", "v1", "--task", "animals")
    assert (len(release["prompts"]), len(release["losses"])) == (0, 2)
    assert run_json("grant", "list")["grants"] == []
    run("erasure", "receipt", gone["id"], "--out", tmp_path / "receipt.json")
    assert run_json("erasure", "verify", tmp_path / "receipt.json")["holds"] is True
    assert run_json("task", "list")["tasks"][0]["id"] == task["id"]
    assert run_json("doctor") == {"findings": [], "repaired": []}


def test_an_edited_receipt_does_not_hold_and_the_exit_code_says_so(pictures: Path, tmp_path: Path) -> None:
    run_json("task", "add", "animals")
    run_json("source", "add", "pets", pictures, "--task", "animals")
    gone = run_json("source", "forget", "pets")
    receipt = run_json("erasure", "show", gone["id"])["receipt"]
    receipt["completed_at"] = receipt["completed_at"].replace("20", "19", 1)
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))

    ended = run("erasure", "verify", tmp_path / "receipt.json", "--json")

    assert ended.code == 1
    assert ended.document["holds"] is False


def test_the_doctor_finds_a_stray_object_and_repairs_it() -> None:
    registry = open_registry(load_registry_settings())
    orphan = f"sources/{new_id()}/shards/{new_id()}/samples/{'0' * 64}"
    registry.objects.put(orphan, b"somebody's face")
    registry.database.close()

    found = run("doctor", "--json")
    assert found.code == 1
    assert [finding["subject"] for finding in found.document["findings"]] == [orphan]
    assert "orphan" in run("doctor").out
    repaired = run_json("doctor", "--repair")
    assert [one["subject"] for one in repaired["repaired"]] == [orphan]
    assert run_json("doctor")["findings"] == []


def test_forgetting_that_a_process_delays_is_reported_by_the_exit_code(pictures: Path, tmp_path: Path) -> None:
    run_json("task", "add", "animals")
    source = UUID(run_json("source", "add", "pets", pictures, "--task", "animals")["source_id"])
    registry = open_registry(load_registry_settings())
    with registry.database.write_transaction() as session:
        shard, scratch_id = new_id(), new_id()
        write_claims.add_claim(session, new_id(), "train", source, shard=shard, scratch_id=scratch_id, seconds=3600)
    registry.database.close()

    ended = run("source", "forget", "pets", "--timeout", "0", "--json")

    erasure = ended.document["id"]
    assert (ended.code, ended.document["state"]) == (75, "running")
    assert "the erasure waits for write_claims (" in ended.error
    assert f"the erasure continues: `alacarte erasure show {erasure}`" in ended.error
    again = run("erasure", "run")
    assert (again.code, "1 of 1 erasures are not complete" in again.error) == (75, True)
    assert run("erasure", "receipt", erasure).code == 75
    assert run("erasure", "show", erasure).code == 0


def test_a_source_is_renamed_and_given_to_another_owner(pictures: Path) -> None:
    run_json("task", "add", "animals")
    run_json("user", "add", "ann", "--role", "owner")
    bob = run_json("user", "add", "bob", "--role", "owner")
    run_json("user", "add", "everyone", "--group")
    source = run_json("source", "add", "pets", pictures, "--task", "animals", "--owner", "ann")["source_id"]
    run_json("source", "add", "other", pictures, "--task", "animals")

    assert run_json("source", "rename", "pets", "friends") == {"renamed": "pets", "name": "friends", "id": source}
    assert run_json("source", "owner", "friends", "bob")["owner"] == "bob"

    shown = run_json("source", "show", "friends")
    assert (shown["id"], shown["owner_id"]) == (source, bob["id"])
    assert "already" in run("source", "rename", "friends", "other").error
    assert "a group cannot own a source" in run("source", "owner", "friends", "everyone").error


def test_grants_are_listed_by_task_alone(pictures: Path) -> None:
    run_json("user", "add", "bob")
    for task in ("animals", "flowers"):
        run_json("task", "add", task)
        run_json("source", "add", f"some {task}", pictures, "--task", task)
        run_json("grant", "add", "bob", f"some {task}")

    listed = run_json("grant", "list", "--task", "flowers")["grants"]

    assert [grant["source"] for grant in listed] == ["some flowers"]
    assert len(run_json("grant", "list")["grants"]) == 2
    assert "no task" in run("grant", "list", "--task", "cars").error


def test_users_tokens_tasks_and_releases_can_be_removed_again(pictures: Path) -> None:
    run_json("task", "add", "animals", "--label", "cat", "--label", "dog", "--label", "emu", "--size", "32")
    run_json("user", "add", "ann", "--role", "admin")
    run_json("user", "add", "bob", "--role", "admin")
    run_json("user", "add", "everyone", "--group")
    run_json("user", "join", "everyone", "bob")
    assert run_json("user", "show", "everyone")["members"] == ["bob"]
    assert run_json("user", "show", "bob")["groups"] == ["everyone"]
    run_json("user", "leave", "everyone", "bob")
    token = run_json("token", "issue", "bob")
    run_json("token", "revoke", token["id"])
    assert run_json("token", "list", "--user", "bob")["tokens"] == []
    run_json("source", "add", "pets", pictures, "--task", "animals", "--owner", "ann")
    run_json("grant", "add", "bob", "pets", "--right", "forget")
    run_json("grant", "revoke", "bob", "pets", "--right", "forget")
    assert run_json("source", "cancel", "pets")["shards"] == 1
    assert run_json("source", "show", "pets")["shards"][0]["state"] == "paused"
    assert run_json("source", "resume", "pets")["shards"] == 1
    train_all()
    run_json("release", "pin", "v1", "--task", "animals")
    assert "has" in run("task", "remove", "animals").error
    run_json("source", "forget", "pets")
    run_json("release", "remove", "v1", "--task", "animals")
    run_json("task", "remove", "animals")
    run_json("user", "remove", "bob")
    assert "last admin" in run("user", "remove", "ann").error


REFUSED: dict[str, tuple[str, ...]] = {
    "an unknown user": ("user", "show", "nobody"),
    "an unknown task": ("task", "show", "nothing"),
    "an unknown source": ("source", "show", "nothing"),
    "an unknown release": ("release", "list", "--task", "nothing"),
    "an unknown erasure": ("erasure", "show", "00000000-0000-7000-8000-000000000001"),
    "a name with a line break": ("user", "add", "a\nb"),
    "an empty name": ("task", "add", ""),
    "a recipe that is no JSON": ("task", "add", "x", "--recipe", "epochs=3"),
    "a recipe that is a list": ("task", "add", "x", "--recipe", "[3]"),
    "no pictures": ("source", "add", "x", "no-such-folder", "--task", "animals"),
    "a receipt that is none": ("erasure", "verify", "pyproject.toml"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_reported_in_one_line(case: str) -> None:
    ended = run(*REFUSED[case])

    assert ended.code == 1
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 1
    assert ended.error


def test_names_that_look_like_sql_or_markup_are_names() -> None:
    names = ["Robert'); DROP TABLE users;--", '" OR ""="', "[bold]x[/bold]", "naïve ☕ 名前", "%s %(x)s {}", "\\x00"]
    for name in names:
        run_json("user", "add", name)
    assert [user["name"] for user in run_json("user", "list")["users"]] == names
    shown = run("user", "list").out
    assert all(name in shown for name in names)


def test_tables_show_names_and_states(tmp_path: Path) -> None:
    run_json("task", "add", "animals")
    run_json("source", "add", "deadbeef" * 4, draw(tmp_path / "few", ("cat", "dog"), 2), "--task", "animals")

    assert "waiting" in run("source", "show", "deadbeef" * 4).out  # a name, though it looks like an id without hyphens
    assert "animals" in run("task", "list").out
    assert "deadbeef" in run("source", "list").out
    assert run("release", "list").out == "no releases\n"


@sqlite_only
def test_a_subject_is_bound_and_unbound(monkeypatch: pytest.MonkeyPatch) -> None:
    run_json("user", "add", "ann")
    bound = run_json("user", "bind", "ann", "--subject", "248289761001", "--issuer", "https://id.example")

    assert (bound["issuer"], bound["subject"]) == ("https://id.example", "248289761001")
    assert run_json("user", "show", "ann")["subject"] == "248289761001"
    assert run_json("user", "unbind", "ann")["subject"] is None
    assert "no subject of the user" in run("user", "unbind", "ann").error

    assert "--issuer" in run("user", "bind", "ann", "--subject", "x").error
    monkeypatch.setenv("ALACARTE_OIDC_ISSUER", "https://default.example")
    monkeypatch.setenv("ALACARTE_OIDC_AUDIENCE", "alacarte")
    assert run_json("user", "bind", "ann", "--subject", "x")["issuer"] == "https://default.example"


@sqlite_only
def test_a_quota_is_shown_set_and_given_back_to_the_default(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALACARTE_QUOTA_BYTES", "5000000")
    run_json("task", "add", "animals")
    run_json("user", "add", "ann", "--role", "owner")
    default = {"user": "ann", "used_bytes": 0, "quota_bytes": 5_000_000, "is_default": True}
    assert run_json("user", "quota", "ann") == default

    assert run_json("user", "quota", "ann", "--bytes", "10")["quota_bytes"] == 10
    refused = run("source", "add", "pets", pictures, "--task", "animals", "--owner", "ann")
    assert refused.code != 0
    assert "of 10 bytes" in refused.error
    assert run_json("user", "quota", "ann", "--default")["is_default"] is True
    run_json("source", "add", "pets", pictures, "--task", "animals", "--owner", "ann")
    assert run_json("user", "quota", "ann")["used_bytes"] > 0
    assert run("user", "quota", "ann", "--default", "--bytes", "1").code == 2
