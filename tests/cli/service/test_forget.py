"""Forgetting from another machine: at once, with a receipt in the end, and an exit code that scripts can rely on."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from registry.ids import new_id
from registry.storage import write_claims
from tests.cli.fixtures import draw
from tests.cli.service.conftest import JsonAs, RunAs
from tests.service.deployment import TASK, Deployment


def hold_files_elsewhere(deployment: Deployment, source: UUID) -> None:
    """A worker elsewhere has files of the source, and is alive."""
    with deployment.registry.database.write_transaction() as session:
        write_claims.add_claim(session, new_id(), "train", source, shard=new_id(), scratch_id=new_id(), seconds=3600)


def test_a_source_is_forgotten_with_a_receipt_that_verifies(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs, tmp_path: Path
) -> None:
    source = str(deployment.add_source())
    again = tmp_path / "again.json"

    gone = json_as("admin", "source", "forget", source, "--receipt", tmp_path / "receipt.json")

    assert (gone["state"], gone["scope"], gone["source_id"]) == ("complete", "source", source)
    assert json.loads((tmp_path / "receipt.json").read_text()) == gone["receipt"]
    assert "404" in run_as("admin", "source", "show", source).error
    assert gone["id"] in {one["id"] for one in json_as("admin", "erasure", "list")["erasures"]}
    run_as("admin", "erasure", "receipt", gone["id"], "--out", again)
    shown = run_as("admin", "erasure", "show", gone["id"])
    assert (shown.code, "write_claims" in shown.out) == (0, True)
    assert json.loads(again.read_text()) == gone["receipt"]
    assert json_as("admin", "erasure", "verify", gone["id"])["holds"] is True
    assert json_as("admin", "source", "forget", source)["id"] == gone["id"]  # a repeated request starts nothing new
    assert "signature" in run_as("admin", "erasure", "verify", gone["id"]).out


def test_a_picture_is_forgotten_by_its_name_and_a_shard_by_its_id(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs, tmp_path: Path
) -> None:
    name = deployment.new_name("pets")
    made = json_as("owner", "source", "add", name, draw(tmp_path / "p", each=2), "--task", TASK)
    sample = json_as("owner", "source", "samples", name)["samples"][0]

    picture = json_as("owner", "source", "forget", name, "--sample", sample["name"], "--task", TASK)
    digest = json_as("owner", "source", "samples", name)["samples"][0]["digest"]
    other = json_as("owner", "source", "forget", name, "--sample", digest)
    shard = json_as("owner", "source", "forget", name, "--shard", made["shards"][0], "--no-wait")

    assert (picture["scope"], picture["sample"]) == ("sample", sample["digest"])
    assert (other["scope"], shard["scope"]) == ("sample", "shard")
    assert json_as("owner", "source", "show", name)["shards"] == []
    missing = run_as("owner", "source", "forget", name, "--sample", "cat/none.png")
    assert missing.error == "Not found (404): no sample 'cat/none.png' that you may see"


def test_an_erasure_that_a_process_delays_is_reported_by_the_exit_code(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs
) -> None:
    source = deployment.add_source()
    hold_files_elsewhere(deployment, source)

    ended = run_as("admin", "source", "forget", str(source), "--timeout", "0.2", "--json")

    assert (ended.code, ended.document["state"]) == (75, "running")
    assert "the erasure waits for " in ended.error
    assert "write_claims (" in ended.error
    assert "the erasure continues: `alacarte erasure show " in ended.error
    [erasure] = [one for one in json_as("admin", "erasure", "list")["erasures"] if one["source_id"] == str(source)]
    assert erasure["id"] in ended.error
    early = run_as("admin", "erasure", "receipt", erasure["id"])
    assert (early.code, "no receipt yet" in early.error) == (75, True)
    assert run_as("admin", "erasure", "verify", erasure["id"]).code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--shard", "00000000-0000-7000-8000-000000000001", "--sample", "x"), "not both"),
        (("--no-wait", "--receipt", "r.json"), "the receipt is signed at the end"),
    ],
)
def test_contradictory_options_are_refused_before_anything_is_forgotten(
    arguments: tuple[str, ...], message: str, deployment: Deployment, run_as: RunAs
) -> None:
    assert message in run_as("admin", "source", "forget", str(deployment.source), *arguments).error
    assert run_as("admin", "source", "show", str(deployment.source)).code == 0
