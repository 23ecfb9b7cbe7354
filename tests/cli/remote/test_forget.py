"""Forgetting from another machine: at once, with a receipt in the end, and an exit code that scripts can rely on."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from registry.ids import new_id
from registry.storage import write_claims
from tests.cli.fixtures import draw
from tests.cli.remote.conftest import Ask, Told
from tests.service.deployment import TASK, Deployment


def let_somebody_hold(deployment: Deployment, source: UUID) -> None:
    """A worker elsewhere has files of the source, and is alive."""
    with deployment.registry.database.write_transaction() as session:
        write_claims.add_claim(session, new_id(), "train", source, shard=new_id(), scratch_id=new_id(), seconds=3600)


def test_a_source_is_forgotten_with_a_receipt_that_verifies(
    deployment: Deployment, ask: Ask, told: Told, tmp_path: Path
) -> None:
    source = str(deployment.add_source())
    again = tmp_path / "again.json"

    gone = told("admin", "forget", source, "--receipt", tmp_path / "receipt.json")

    assert (gone["state"], gone["scope"], gone["source_id"]) == ("complete", "source", source)
    assert json.loads((tmp_path / "receipt.json").read_text()) == gone["receipt"]
    assert "404" in ask("admin", "source", source).error
    assert gone["id"] in {one["id"] for one in told("admin", "erasures")["erasures"]}
    shown = ask("admin", "erasure", gone["id"], "--receipt", again)
    assert (shown.code, "write_claims" in shown.out) == (0, True)
    assert json.loads(again.read_text()) == gone["receipt"]
    assert told("admin", "verify", gone["id"])["holds"] is True
    assert "signature" in ask("admin", "verify", gone["id"]).out


def test_a_picture_is_forgotten_by_its_name_and_a_shard_by_its_id(
    deployment: Deployment, ask: Ask, told: Told, tmp_path: Path
) -> None:
    name = deployment.new_name("pets")
    made = told("owner", "upload", name, draw(tmp_path / "p", each=2), "--task", TASK)
    sample = told("owner", "samples", name)["samples"][0]

    picture = told("owner", "forget", name, "--sample", sample["name"], "--task", TASK)
    other = told("owner", "forget", name, "--sample", told("owner", "samples", name)["samples"][0]["digest"])
    shard = told("owner", "forget", name, "--shard", made["shards"][0], "--no-wait")

    assert (picture["scope"], picture["sample"]) == ("sample", sample["digest"])
    assert (other["scope"], shard["scope"]) == ("sample", "shard")
    assert told("owner", "source", name)["shards"] == []
    missing = ask("owner", "forget", name, "--sample", "cat/none.png")
    assert missing.error == "Not found (404): no sample 'cat/none.png' that you may see"


def test_an_erasure_that_somebody_holds_up_is_told_by_the_exit_code(
    deployment: Deployment, ask: Ask, told: Told, tmp_path: Path
) -> None:
    source = deployment.add_source()
    let_somebody_hold(deployment, source)

    ended = ask("admin", "forget", str(source), "--timeout", "0.2", "--json")

    assert (ended.code, ended.out) == (75, "")
    assert "the erasure waits for " in ended.error
    assert "write_claims (" in ended.error
    assert "the erasure goes on: `alacarte remote erasure " in ended.error
    [erasure] = [one for one in told("admin", "erasures")["erasures"] if one["source_id"] == str(source)]
    assert erasure["id"] in ended.error
    early = ask("admin", "erasure", erasure["id"], "--receipt", tmp_path / "receipt.json")
    assert (early.code, "no receipt yet" in early.error) == (75, True)
    assert ask("admin", "verify", erasure["id"]).code == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (("--shard", "00000000-0000-7000-8000-000000000001", "--sample", "x"), "not both"),
        (("--no-wait", "--receipt", "r.json"), "the receipt comes at the end"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_forgotten(
    said: tuple[str, ...], told: str, deployment: Deployment, ask: Ask
) -> None:
    assert told in ask("admin", "forget", str(deployment.source), *said).error
    assert ask("admin", "source", str(deployment.source)).code == 0
