"""`alacarte train --push`: the prompts arrive, no picture does, and what cannot be sent is refused before training."""

from pathlib import Path
from typing import Any

import pytest

from alacarte.client import Client
from tests.cli.fixtures import TINY, draw, run
from tests.service.deployment import Deployment

QUICK = ("--weights", "random", "--epochs", "1", "--augment", "none", "--shards", "2")


def push(deployment: Deployment, pictures: Path, out: Path, *more: str, who: str = "owner") -> tuple[str | Path, ...]:
    return ("train", pictures, "--out", out, "--push", deployment.url, "--token", deployment.tokens[who], *QUICK, *more)


def test_the_prompts_of_a_remote_site_answer_and_its_pictures_stay_there(
    deployment: Deployment, pictures: Path, tmp_path: Path
) -> None:
    name = deployment.new_name("clinic")

    ended = run(*push(deployment, pictures, tmp_path / "out", "--source", name, "--task", "animals", "--json"))

    assert ended.code == 0, ended.err
    assert ended.document["backbone"]["size"] == 32  # the task's
    with Client(deployment.url, deployment.tokens["owner"]) as owner:
        state = owner.get_source(name)
        assert ended.document["pushed"] == {
            "url": deployment.url,
            "source": str(state.id),
            "shards": [str(shard.id) for shard in state.shards],
        }
        assert (state.samples, {shard.state for shard in state.shards}) == (0, {"remote"})
        assert state.labels == ["cat", "dog", "emu"]
        answer = owner.predict(pictures / "cat" / "0.png", sources=[name])
        assert answer.sources == [state.id]
    assert deployment.tokens["owner"] not in ended.out + ended.err


def test_an_existing_source_gets_more_shards_by_a_token_of_the_environment(
    deployment: Deployment, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(deployment.add_source())
    monkeypatch.setenv("ALACARTE_TOKEN", deployment.tokens["manager"])

    ended = run("train", pictures, "--out", tmp_path / "out", "--push", deployment.url, "--source", source, *QUICK)

    assert ended.code == 0, ended.err
    with Client(deployment.url, deployment.tokens["owner"]) as owner:
        assert len(owner.get_source(source).shards) == 2


def test_a_remote_site_trains_by_the_tasks_recipe_unless_options_say_otherwise(
    deployment: Deployment, pictures: Path, tmp_path: Path
) -> None:
    recipe = {"epochs": 2, "batch": 4, "memory": 3, "views": 2}
    with Client(deployment.url, deployment.tokens["admin"]) as admin:
        task = admin.create_task(deployment.new_name("task"), backbone="vit_tiny_patch16_224", size=32, recipe=recipe)
    where = ("--push", deployment.url, "--token", deployment.tokens["owner"], "--source", "site", "--task", task.name)

    ended = run(
        "train", pictures, "--out", tmp_path / "out", "--weights", "random", "--shards", "1", *where,
        "--epochs", "1", "--augment", "none", "--json",
    )  # fmt: skip

    assert ended.code == 0, ended.err
    message = "backbone vit_tiny_patch16_224, size 32 px, batch 4, memory 3"
    assert f"options of the task {task.name}: {message}\n" in ended.err
    trained = ended.document["recipe"]
    assert (trained["epochs"], trained["batch"], trained["memory"]) == (1, 4, 3)
    assert (trained["augment"], trained["views"]) == ("none", None)
    [prompt] = run("inspect", tmp_path / "out", "--json").document["prompts"]
    assert (prompt["settings"]["epochs"], prompt["settings"]["batch"], prompt["settings"]["memory"]) == (1, 4, 3)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"recipe": {"epoch": 2}}, "the task's recipe has the unknown setting 'epoch'"),
        ({"size": 32, "labels": ["cat", "dog"]}, "has the label 'emu', which the task does not have"),
    ],
)
def test_what_the_task_does_not_allow_is_reported_before_training(
    task: dict[str, Any], message: str, deployment: Deployment, pictures: Path, tmp_path: Path
) -> None:
    with Client(deployment.url, deployment.tokens["admin"]) as admin:
        name = admin.create_task(deployment.new_name("task"), backbone="vit_tiny_patch16_224", **task).name

    ended = run(*push(deployment, pictures, tmp_path / "out", "--source", "site", "--task", name))

    assert message in ended.error
    assert "epoch 1 of" not in ended.err
    assert not (tmp_path / "out").exists()


def test_another_backbone_than_the_tasks_is_reported_before_training(
    deployment: Deployment, pictures: Path, tmp_path: Path
) -> None:
    ended = run(*push(deployment, pictures, tmp_path / "out", "--source", str(deployment.source), "--size", "48"))

    assert ended.code == 1
    assert "another backbone" in ended.error
    assert "epoch" not in ended.err


@pytest.mark.parametrize(
    ("more", "who", "message"),
    [
        ((), "owner", "--push needs --source NAME"),
        (("--source", "nowhere"), "owner", "no source 'nowhere' that you may see: name its task with --task"),
        (("--source", "nowhere", "--task", "nothing"), "owner", "no task 'nothing'"),
        (("--source", "{source}"), "user", "ask its owner for the right to manage it"),
        (("--source", "{source}"), "stranger", "no source"),
        (("--source", "new", "--task", "animals"), "user", "Forbidden (403)"),
    ],
)
def test_what_cannot_be_sent_is_reported_before_training(
    more: tuple[str, ...],
    who: str,
    message: str,
    deployment: Deployment,
    pictures: Path,
    tmp_path: Path,
) -> None:
    arguments = [one.format(source=deployment.source) for one in more]

    ended = run(*push(deployment, pictures, tmp_path / "out", *arguments, who=who))

    assert (ended.code, ended.out) == (1, "")
    assert message in ended.error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--source", "a"), "give its URL with --push"),
        (("--push", "http://127.0.0.1:9", "--source", "a"), "needs a token"),
        (("--push", "127.0.0.1", "--source", "a", "--token", "t"), "is not the URL of a service"),
        (("--push", "http://127.0.0.1:9", "--source", "a", "--token", "alc"), "http://127.0.0.1:9 cannot be reached"),
    ],
)
def test_an_incomplete_or_unreachable_destination_is_refused(
    arguments: tuple[str, ...], message: str, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ALACARTE_TOKEN", raising=False)

    assert message in run("train", pictures, *arguments, *TINY).error


def test_what_was_sent_is_reported_when_the_rest_cannot_be(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = draw(tmp_path / "data")
    name = deployment.new_name("clinic")
    send = Client.push_prompt
    sent: list[Path] = []

    def failing(client: Client, source: str, path: Path) -> object:
        if sent:
            deployment.request("admin", "DELETE", f"/sources/{source}")
        sent.append(path)
        return send(client, source, path)

    monkeypatch.setattr(Client, "push_prompt", failing)

    ended = run(*push(deployment, pictures, tmp_path / "out", "--source", name, "--task", "animals"))

    assert ended.code == 1
    assert "of 2 prompts 1 were sent" in ended.error
    assert len(list((tmp_path / "out").iterdir())) == 2
