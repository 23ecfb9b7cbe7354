"""The registry by its commands, on both homes: no server, tables for people, JSON for programs, errors in a line."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from typer.main import get_command

from alacarte.cli.main import GROUPS, app
from registry.ids import new_id
from registry.registry import open_registry
from registry.settings import load_registry_settings
from registry.storage import write_claims
from registry.training.publish import PublishedMetadata, publish
from registry.training.queue import lease_shard
from tests.cli.fixtures import draw, run

FACTS = PublishedMetadata(identity="1d" * 32, labels=("cat",), samples=1, extra={})


@pytest.fixture
def at_home(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of this test is the one that commands find."""
    for name, value in environment.items():
        if name.startswith("ALACARTE_"):
            monkeypatch.setenv(name, value)


def told(*arguments: str | Path) -> Any:  # Any: a document
    """The document of a command that succeeds."""
    ended = run(*arguments, "--json")
    assert ended.code == 0, ended.err
    return ended.document


def train_all() -> None:
    registry = open_registry(load_registry_settings())
    while True:
        with lease_shard(registry, "test") as work:
            if work is None:
                break
            publish(registry, work[0], b"numbers" + work[0].id.bytes, FACTS)
    registry.database.close()


@pytest.mark.usefixtures("at_home")
def test_the_whole_story_of_a_source(pictures: Path, tmp_path: Path) -> None:
    task = told("task", "add", "animals", "--recipe", '{"epochs": 3}')
    told("user", "add", "ann", "--role", "owner")
    told("user", "add", "bob")
    told("user", "add", "students", "--group")
    told("user", "join", "students", "bob")
    admission = told("source", "add", "pets", pictures, "--task", "animals", "--owner", "ann", "--shards", "2")
    assert admission["samples"] == 24
    assert admission["skipped_files"] == []
    assert [shard["state"] for shard in told("source", "show", "pets")["shards"]] == ["waiting", "waiting"]
    train_all()
    assert told("source", "list")["sources"][0]["trained"] == 2
    told("release", "pin", "v1", "--task", "animals")
    grant = told("grant", "add", "students", "pets")
    assert (grant["user"], grant["right"]) == ("students", "use")
    token = told("token", "issue", "bob", "--days", "7")
    assert token["token"].startswith(f"alc_{token['prefix']}_")
    assert token["token"] not in json.dumps(told("token", "list"))

    again = run("source", "extend", "pets", pictures)
    assert "nothing to add" in again.error
    sample = told("source", "samples", "pets")["samples"][0]
    forgotten = told("source", "forget", "pets", "--sample", sample["digest"])
    assert forgotten["state"] == "complete"
    assert {shard["state"] for shard in told("source", "show", "pets")["shards"]} == {"waiting", "trained"}
    back = run("source", "extend", "pets", pictures, "--json")
    assert "--readmit" in back.error
    assert told("source", "extend", "pets", pictures, "--readmit")["samples"] == 1

    gone = told("source", "forget", "pets")
    assert gone["state"] == "complete"
    release = told("release", "show", "v1", "--task", "animals")
    assert (len(release["prompts"]), len(release["losses"])) == (0, 2)
    assert told("grant", "list")["grants"] == []
    run("erasure", "receipt", gone["id"], "--out", tmp_path / "receipt.json")
    verdict = told("erasure", "verify", tmp_path / "receipt.json")
    assert verdict["holds"] is True
    assert told("task", "list")["tasks"][0]["id"] == task["id"]
    assert told("doctor") == {"findings": [], "repaired": []}


@pytest.mark.usefixtures("at_home")
def test_an_edited_receipt_does_not_hold_and_the_exit_code_says_so(pictures: Path, tmp_path: Path) -> None:
    told("task", "add", "animals")
    told("source", "add", "pets", pictures, "--task", "animals")
    gone = told("source", "forget", "pets")
    receipt = told("erasure", "show", gone["id"])["receipt"]
    receipt["completed_at"] = receipt["completed_at"].replace("20", "19", 1)
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))

    ended = run("erasure", "verify", tmp_path / "receipt.json", "--json")

    assert ended.code == 1
    assert ended.document["holds"] is False


@pytest.mark.usefixtures("at_home")
def test_the_doctor_finds_a_stray_object_and_mends_it(environment: dict[str, str]) -> None:
    registry = open_registry(load_registry_settings())
    stray = (
        "sources/00000000-0000-7000-8000-000000000001/shards/00000000-0000-7000-8000-000000000002/samples/" + "0" * 64
    )
    registry.objects.put(stray, b"somebody's face")
    registry.database.close()

    found = run("doctor", "--json")
    assert found.code == 1
    assert [finding["subject"] for finding in found.document["findings"]] == [stray]
    assert "orphan" in run("doctor").out
    repaired = told("doctor", "--repair")
    assert [one["subject"] for one in repaired["repaired"]] == [stray]
    assert told("doctor")["findings"] == []


@pytest.mark.usefixtures("at_home")
def test_forgetting_that_somebody_holds_up_is_told_by_the_exit_code(pictures: Path, tmp_path: Path) -> None:
    told("task", "add", "animals")
    source = told("source", "add", "pets", pictures, "--task", "animals")["source"]
    registry = open_registry(load_registry_settings())
    with registry.database.write_transaction() as session:
        write_claims.add_claim(
            session, new_id(), "train", UUID(source), shard=new_id(), scratch_id=new_id(), seconds=3600
        )
    registry.database.close()

    ended = run("source", "forget", "pets", "--timeout", "0", "--json")

    erasure = ended.document["id"]
    assert (ended.code, ended.document["state"]) == (75, "running")
    assert f"erasure {erasure} is not complete; nothing of it is served any more: write_claims: " in ended.error
    again = run("erasure", "run")
    assert (again.code, "1 of 1 erasures are not complete" in again.error) == (75, True)
    assert run("erasure", "receipt", erasure).code == 75
    assert run("erasure", "show", erasure).code == 0


@pytest.mark.usefixtures("at_home")
def test_a_source_is_renamed_and_handed_on(pictures: Path) -> None:
    told("task", "add", "animals")
    told("user", "add", "ann", "--role", "owner")
    bob = told("user", "add", "bob", "--role", "owner")
    told("user", "add", "everyone", "--group")
    source = told("source", "add", "pets", pictures, "--task", "animals", "--owner", "ann")["source"]
    told("source", "add", "other", pictures, "--task", "animals")

    assert told("source", "rename", "pets", "friends") == {"renamed": "pets", "name": "friends", "id": source}
    assert told("source", "owner", "friends", "bob")["owner"] == "bob"

    shown = told("source", "show", "friends")
    assert (shown["id"], shown["owner_id"]) == (source, bob["id"])
    assert "already" in run("source", "rename", "friends", "other").error
    assert "a group owns no sources" in run("source", "owner", "friends", "everyone").error


@pytest.mark.usefixtures("at_home")
def test_grants_are_listed_by_task_alone(pictures: Path) -> None:
    told("user", "add", "bob")
    for task in ("animals", "flowers"):
        told("task", "add", task)
        told("source", "add", f"some {task}", pictures, "--task", task)
        told("grant", "add", "bob", f"some {task}")

    listed = told("grant", "list", "--task", "flowers")["grants"]

    assert [grant["source"] for grant in listed] == ["some flowers"]
    assert len(told("grant", "list")["grants"]) == 2
    assert "no task" in run("grant", "list", "--task", "cars").error


@pytest.mark.usefixtures("at_home")
def test_users_tokens_tasks_and_releases_can_be_removed_again(pictures: Path) -> None:
    told("task", "add", "animals", "--label", "cat", "--label", "dog", "--label", "emu", "--size", "32")
    told("user", "add", "ann", "--role", "admin")
    told("user", "add", "bob", "--role", "admin")
    told("user", "add", "everyone", "--group")
    told("user", "join", "everyone", "bob")
    assert told("user", "show", "everyone")["members"] == ["bob"]
    assert told("user", "show", "bob")["groups"] == ["everyone"]
    told("user", "leave", "everyone", "bob")
    token = told("token", "issue", "bob")
    told("token", "revoke", token["id"])
    assert told("token", "list", "--user", "bob")["tokens"] == []
    told("source", "add", "pets", pictures, "--task", "animals", "--owner", "ann")
    told("grant", "add", "bob", "pets", "--right", "forget")
    told("grant", "revoke", "bob", "pets", "--right", "forget")
    assert told("source", "cancel", "pets")["shards"] == 1
    assert told("source", "show", "pets")["shards"][0]["state"] == "paused"
    assert told("source", "resume", "pets")["shards"] == 1
    train_all()
    told("release", "pin", "v1", "--task", "animals")
    assert "has" in run("task", "remove", "animals").error
    told("source", "forget", "pets")
    told("release", "remove", "v1", "--task", "animals")
    told("task", "remove", "animals")
    told("user", "remove", "bob")
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


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_told_in_one_line(case: str) -> None:
    ended = run(*REFUSED[case])

    assert ended.code == 1
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 1
    assert ended.error


def test_without_a_registry_every_command_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALACARTE_HOME", str(tmp_path / "new"))

    for command in (("user", "list"), ("doctor",), ("source", "list"), ("erasure", "key")):
        assert "alacarte db upgrade" in run(*command).error
    assert list(tmp_path.iterdir()) == []


def test_a_registry_is_made_by_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALACARTE_HOME", str(tmp_path / "new"))

    made = told("db", "upgrade")
    assert made["before"] is None
    assert told("db", "upgrade")["before"] == made["after"]
    assert told("db", "status")["is_current"] is True
    assert "BEGIN PUBLIC KEY" in run("erasure", "key").out
    assert told("user", "list") == {"users": []}


def test_every_command_of_the_registry_has_a_document_for_programs() -> None:
    root = get_command(app)
    without = {"receipt"}  # which is a document itself
    for group in GROUPS:
        for name, command in root.commands[group].commands.items():  # type: ignore[attr-defined]
            options = {option for parameter in command.params for option in parameter.opts}
            assert name in without or "--json" in options, f"{group} {name}"


@pytest.mark.usefixtures("at_home")
def test_names_that_look_like_sql_or_markup_are_names(pictures: Path) -> None:
    names = ["Robert'); DROP TABLE users;--", '" OR ""="', "[bold]x[/bold]", "naïve ☕ 名前", "%s %(x)s {}", "\\x00"]
    told("task", "add", "animals")
    for name in names:
        told("user", "add", name)
    assert [user["name"] for user in told("user", "list")["users"]] == names
    shown = run("user", "list").out
    assert all(name in shown for name in names)


@pytest.mark.usefixtures("at_home")
def test_tables_are_for_people(tmp_path: Path) -> None:
    told("task", "add", "animals")
    told("source", "add", "pets", draw(tmp_path / "few", ("cat", "dog"), 2), "--task", "animals")

    shown = run("source", "show", "pets")

    assert "waiting" in shown.out
    assert "animals" in run("task", "list").out
    assert "pets" in run("source", "list").out
    assert "no releases" in run("release", "list").out
