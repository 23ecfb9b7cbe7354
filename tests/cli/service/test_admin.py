"""People, tokens, tasks and releases from another machine."""

from pathlib import Path

from alacarte.client import Client
from tests.cli.fixtures import run
from tests.cli.service.conftest import JsonAs, RunAs
from tests.service.deployment import TASK, Deployment


def test_a_user_and_a_group_are_made_joined_and_removed(deployment: Deployment, run_as: RunAs, json_as: JsonAs) -> None:
    user, group = deployment.new_name("user"), deployment.new_name("group")

    made = json_as("admin", "user", "add", user, "--role", "owner")
    json_as("admin", "user", "add", group, "--group")
    json_as("admin", "user", "join", group, user)

    assert (made["role"], json_as("admin", "user", "show", user)["groups"]) == ("owner", [group])
    assert json_as("admin", "user", "show", group)["members"] == [user]
    assert user in run_as("admin", "user", "list").out
    json_as("admin", "user", "leave", group, user)
    assert json_as("admin", "user", "show", user)["groups"] == []
    json_as("admin", "user", "remove", user)
    assert user not in {one["name"] for one in json_as("admin", "user", "list")["users"]}
    assert "Forbidden (403)" in run_as("user", "user", "add", deployment.new_name()).error


def test_a_token_is_issued_to_a_file_used_and_revoked(deployment: Deployment, json_as: JsonAs, tmp_path: Path) -> None:
    issued = json_as("admin", "token", "issue", "user", "--note", "the scanner", "--days", "1")
    file = tmp_path / "token"
    file.write_text(issued["token"] + "\n")
    by_file = ("status", "--url", deployment.url, "--token-file", file)

    with Client(deployment.url, issued["token"]) as client:
        assert client.get_current_user().name == "user"
    assert run(*by_file, "--json").document["name"] == "user"
    [listed] = [
        one for one in json_as("admin", "token", "list", "--user", "user")["tokens"] if one["id"] == issued["id"]
    ]
    assert (listed["user"], listed["note"], "token" in listed) == ("user", "the scanner", False)
    json_as("admin", "token", "revoke", issued["id"])
    assert "Unauthenticated (401)" in run(*by_file).error


def test_a_task_is_made_and_removed(deployment: Deployment, run_as: RunAs, json_as: JsonAs) -> None:
    name = deployment.new_name("task")

    made = json_as(
        "admin", "task", "add", name, "--size", "32", "--label", "b", "--label", "a", "--recipe", '{"epochs": 2}'
    )

    assert (made["labels"], made["recipe"], json_as("admin", "task", "show", name)) == (["a", "b"], {"epochs": 2}, made)
    json_as("admin", "task", "remove", name)
    assert "Not found (404)" in run_as("admin", "task", "show", name).error
    assert "not JSON" in run_as("admin", "task", "add", name, "--recipe", "epochs=2").error


def test_a_release_is_pinned_shown_with_its_losses_and_removed(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs
) -> None:
    name, source = deployment.new_name("release"), deployment.add_source()
    deployment.publish(source)

    json_as("admin", "release", "pin", name, "--task", TASK)

    assert str(source) in {
        one["source_id"] for one in json_as("admin", "release", "show", name, "--task", TASK)["prompts"]
    }
    erasure = json_as("admin", "source", "forget", str(source), "--no-wait")
    losses = json_as("admin", "release", "show", name, "--task", TASK)["losses"]
    assert [(one["source_id"], one["erasure_id"]) for one in losses] == [(str(source), erasure["id"])]
    assert name in run_as("admin", "release", "list", "--task", TASK).out
    json_as("admin", "release", "remove", name, "--task", TASK)
    assert name not in {one["name"] for one in json_as("admin", "release", "list")["releases"]}
