"""People, tokens, tasks and releases from another machine."""

from pathlib import Path

from alacarte.client import Client
from tests.cli.fixtures import run
from tests.cli.remote.conftest import Ask, Told
from tests.service.deployment import TASK, Deployment


def test_a_user_and_a_group_are_made_joined_and_removed(deployment: Deployment, ask: Ask, told: Told) -> None:
    user, group = deployment.new_name("user"), deployment.new_name("group")

    made = told("admin", "create-user", user, "--role", "owner")
    told("admin", "create-user", group, "--group")
    told("admin", "join", group, user)

    assert (made["role"], told("admin", "user", user)["groups"]) == ("owner", [group])
    assert told("admin", "user", group)["members"] == [user]
    assert user in ask("admin", "users").out
    told("admin", "leave", group, user)
    assert told("admin", "user", user)["groups"] == []
    told("admin", "remove-user", user)
    assert user not in {one["name"] for one in told("admin", "users")["users"]}
    assert "Forbidden (403)" in ask("user", "create-user", deployment.new_name()).error


def test_a_token_is_issued_to_a_file_used_and_revoked(deployment: Deployment, told: Told, tmp_path: Path) -> None:
    issued = told("admin", "issue-token", "user", "--note", "the scanner", "--days", "1")
    file = tmp_path / "token"
    file.write_text(issued["token"] + "\n")
    by_file = ("remote", "status", "--url", deployment.url, "--token-file", file)

    with Client(deployment.url, issued["token"]) as client:
        assert client.get_current_user().name == "user"
    assert run(*by_file, "--json").document["name"] == "user"
    [listed] = [one for one in told("admin", "tokens", "--user", "user")["tokens"] if one["id"] == issued["id"]]
    assert (listed["user"], listed["note"], "token" in listed) == ("user", "the scanner", False)
    told("admin", "revoke-token", issued["id"])
    assert "Unauthenticated (401)" in run(*by_file).error


def test_a_task_is_made_and_removed(deployment: Deployment, ask: Ask, told: Told) -> None:
    name = deployment.new_name("task")

    made = told(
        "admin", "create-task", name, "--size", "32", "--label", "b", "--label", "a", "--recipe", '{"epochs": 2}'
    )

    assert (made["labels"], made["recipe"], told("admin", "task", name)) == (["a", "b"], {"epochs": 2}, made)
    told("admin", "remove-task", name)
    assert "Not found (404)" in ask("admin", "task", name).error
    assert "no JSON" in ask("admin", "create-task", name, "--recipe", "epochs=2").error


def test_a_release_is_pinned_shown_with_its_losses_and_removed(deployment: Deployment, ask: Ask, told: Told) -> None:
    name, source = deployment.new_name("release"), deployment.add_source()
    deployment.publish(source)

    told("admin", "pin-release", name, "--task", TASK)

    assert str(source) in {one["source_id"] for one in told("admin", "release", name, "--task", TASK)["prompts"]}
    erasure = told("admin", "forget", str(source), "--no-wait")
    losses = told("admin", "release", name, "--task", TASK)["losses"]
    assert [(one["source_id"], one["erasure_id"]) for one in losses] == [(str(source), erasure["id"])]
    assert name in ask("admin", "releases", "--task", TASK).out
    told("admin", "remove-release", name, "--task", TASK)
    assert name not in {one["name"] for one in told("admin", "releases")["releases"]}
