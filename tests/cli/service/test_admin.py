"""Tokens and releases at a service."""

from pathlib import Path

from alacarte.client import Client
from tests.cli.fixtures import run
from tests.cli.service.conftest import JsonAs, RunAs
from tests.service.deployment import TASK, Deployment


def test_a_token_is_issued_to_a_file_used_and_revoked(deployment: Deployment, json_as: JsonAs, tmp_path: Path) -> None:
    issued = json_as("admin", "token", "issue", "user", "--note", "the scanner", "--days", "1")
    file = tmp_path / "token"
    file.write_text(issued["token"] + "\n")
    by_file = ("status", "--url", deployment.url, "--token-file", file)

    with Client(deployment.url, issued["token"]) as client:
        assert client.get_current_user().name == "user"
    assert run(*by_file, "--json").document["name"] == "user"
    tokens = json_as("admin", "token", "list", "--user", "user")["tokens"]
    [listed] = [one for one in tokens if one["id"] == issued["id"]]
    assert (listed["user"], listed["note"], "token" in listed) == ("user", "the scanner", False)
    json_as("admin", "token", "revoke", issued["id"])
    assert "Unauthenticated (401)" in run(*by_file).error


def test_a_release_is_pinned_shown_with_its_losses_and_removed(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs
) -> None:
    name, source = deployment.new_name("release"), deployment.add_source()
    deployment.publish(source)

    json_as("admin", "release", "pin", name, "--task", TASK)

    prompts = json_as("admin", "release", "show", name, "--task", TASK)["prompts"]
    assert str(source) in {one["source_id"] for one in prompts}
    erasure = json_as("admin", "source", "forget", str(source), "--no-wait")
    losses = json_as("admin", "release", "show", name, "--task", TASK)["losses"]
    assert [(one["source_id"], one["erasure_id"]) for one in losses] == [(str(source), erasure["id"])]
    assert name in run_as("admin", "release", "list", "--task", TASK).out
    json_as("admin", "release", "remove", name, "--task", TASK)
    assert name not in {one["name"] for one in json_as("admin", "release", "list")["releases"]}
