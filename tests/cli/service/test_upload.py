"""Pictures and prompts on their way to a service, and who may use them there."""

import threading
import zipfile
from pathlib import Path

from registry.training.publish import PublishedMetadata, publish
from registry.training.queue import lease_shard
from tests.cli.fixtures import draw
from tests.cli.service.conftest import JsonAs, RunAs
from tests.service.deployment import TASK, Deployment, archive, backbone, picture, prompt_bytes


def train_when_it_comes(deployment: Deployment, has_ended: threading.Event) -> None:
    """Publish a prompt for every shard until the test has ended."""
    while not has_ended.wait(0.02):
        with lease_shard(deployment.registry, "test") as work:
            if work is not None:
                labels = tuple(sorted({sample.label for sample in work[0].samples}))
                metadata = PublishedMetadata(identity=backbone().identity, labels=labels, samples=1, extra={})
                publish(deployment.registry, work[0], prompt_bytes(5, labels), metadata)


def test_a_folder_is_uploaded_and_its_training_followed(
    deployment: Deployment, json_as: JsonAs, tmp_path: Path
) -> None:
    name, has_ended = deployment.new_name("pets"), threading.Event()
    worker = threading.Thread(target=train_when_it_comes, args=(deployment, has_ended))
    worker.start()
    try:
        made = json_as(
            "owner", "source", "add", name, draw(tmp_path / "p", each=4), "--task", TASK, "--shards", "2", "--wait"
        )
    finally:
        has_ended.set()
        worker.join()

    assert (made["samples"], len(made["shards"]), made["skipped_files"]) == (12, 2, [])
    state = json_as("owner", "source", "show", name)
    assert (state["id"], state["progress"]) == (made["source_id"], 1.0)
    assert {shard["state"] for shard in state["shards"]} == {"trained"}


def test_an_archive_is_uploaded_extended_and_listed(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs, tmp_path: Path
) -> None:
    name, first, more = deployment.new_name("pets"), tmp_path / "first.zip", tmp_path / "more.zip"
    first.write_bytes(archive())
    more.write_bytes(archive({"cat/new.png": picture(222), "cat/bad.png": b"no picture"}))

    shown = run_as("owner", "source", "add", name, first, "--task", TASK)
    refused = run_as("owner", "source", "extend", name, more)
    added = json_as("owner", "source", "extend", name, more, "--skip-unreadable")

    assert (shown.code, "skipped" in shown.out) == (0, True)
    assert (refused.code, "cat/bad.png" in refused.error) == (1, True)
    assert (added["samples"], added["skipped"], added["skipped_files"][0]["name"]) == (1, 1, "cat/bad.png")
    cats = json_as("owner", "source", "samples", name, "--label", "cat")["samples"]
    assert {sample["name"] for sample in cats} == {"cat/0.png", "cat/1.png", "cat/new.png"}
    assert "cat/new.png" in run_as("owner", "source", "samples", name).out


def test_training_is_stopped_resumed_and_not_waited_for_beyond_the_time(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs, tmp_path: Path
) -> None:
    name = deployment.new_name("pets")

    late = run_as("owner", "source", "add", name, draw(tmp_path / "p"), "--task", TASK, "--wait", "--timeout", "0")

    assert (late.code, late.out) == (75, "")
    assert "are not trained, after 0 s" in late.error
    assert json_as("owner", "source", "cancel", name)["shards"] == 1
    assert json_as("owner", "source", "show", name)["shards"][0]["state"] == "paused"
    assert json_as("owner", "source", "resume", name)["shards"] == 1


def test_an_upload_for_somebody_else_is_an_admins(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs, tmp_path: Path
) -> None:
    folder = draw(tmp_path / "p", each=2)
    command = ("source", "add", deployment.new_name(), folder, "--task", TASK, "--owner")

    refused = run_as("owner", *command, str(deployment.users["admin"]))
    made = json_as("admin", *command, "owner")

    assert "only admins" in refused.error
    assert json_as("admin", "source", "show", made["source_id"])["owner_id"] == str(deployment.users["owner"])


def test_prompts_are_pushed_to_a_source_that_is_created_for_them(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs, tmp_path: Path
) -> None:
    name = deployment.new_name("clinic")
    for number in range(2):
        (tmp_path / f"shard-{number}.safetensors").write_bytes(prompt_bytes(10 + number))

    without = run_as("owner", "source", "push", name, tmp_path)
    sent = json_as("owner", "source", "push", name, tmp_path, "--task", TASK)["prompts"]

    assert "name its task with --task to create it" in without.error
    assert [Path(one["file"]).name for one in sent] == ["shard-0.safetensors", "shard-1.safetensors"]
    shards = json_as("owner", "source", "show", name)["shards"]
    assert [shard["id"] for shard in shards] == [one["shard_id"] for one in sent]


def test_an_invalid_or_missing_prompt_is_reported_with_its_file(
    deployment: Deployment, run_as: RunAs, tmp_path: Path
) -> None:
    (tmp_path / "garbage.safetensors").write_bytes(b"no prompt at all")

    for file in (tmp_path / "garbage.safetensors", tmp_path / "missing.safetensors"):
        ended = run_as("owner", "source", "push", str(deployment.source), file)

        assert (ended.code, str(file) in ended.error) == (1, True)


def test_a_right_is_granted_listed_and_revoked(deployment: Deployment, run_as: RunAs, json_as: JsonAs) -> None:
    source, other = str(deployment.add_source()), str(deployment.add_source())
    name = json_as("owner", "source", "show", source)["name"]

    given = json_as("admin", "grant", "add", "stranger", name, "--task", TASK)
    listed = json_as("admin", "grant", "list", "--user", "stranger", "--task", TASK)["grants"]

    assert (given["right"], given["source_id"]) == ("use", source)
    assert [(one["user"], one["source"]) for one in listed] == [("stranger", name)]
    assert json_as("admin", "grant", "list", "--source", other, "--user", "stranger")["grants"] == []
    assert [one["id"] for one in json_as("stranger", "grant", "list")["grants"]] == [given["id"]]
    assert json_as("admin", "grant", "revoke", "stranger", source)["revoked"] == "use"
    assert "no grants" in run_as("stranger", "grant", "list").out


def test_pictures_that_cannot_be_sent_are_reported(deployment: Deployment, run_as: RunAs, tmp_path: Path) -> None:
    folder = draw(tmp_path / "link", each=2)
    (folder / "cat" / "passwords.png").symlink_to("/etc/passwd")
    zipfile.ZipFile(tmp_path / "empty.zip", "w").close()
    messages = {"link": "is a link", "empty.zip": "", "gone.zip": "gone.zip: No such file or directory"}

    for name, message in messages.items():
        ended = run_as("owner", "source", "add", deployment.new_name(), tmp_path / name, "--task", TASK)

        assert (ended.code, message in ended.error) == (1, True)
