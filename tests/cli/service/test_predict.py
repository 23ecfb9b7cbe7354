"""The status of a service, predictions by it, and the sources and tasks that it lists."""

from pathlib import Path

import pytest

from alacarte.client import Client
from tests.cli.service.conftest import JsonAs, RunAs
from tests.service.deployment import TASK, Deployment, picture, prompt_bytes


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    files = [tmp_path / f"{number}.png" for number in range(5)]
    for number, file in enumerate(files):
        file.write_bytes(picture(40 * number))
    return files


def test_the_status_shows_the_user_and_what_they_may_use(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs
) -> None:
    source = str(deployment.add_source())

    user, stranger = json_as("user", "status"), json_as("stranger", "status")

    assert (user["url"], user["ready"], user["name"], user["role"]) == (deployment.url, True, "user", "predictor")
    [mine] = [one for one in user["sources"] if one["id"] == source]
    assert (mine["rights"], mine["task"]) == (["use"], TASK)
    assert stranger["sources"] == []
    assert mine["name"] in run_as("user", "status").out


def test_a_service_that_is_not_ready_sets_the_exit_code(run_as: RunAs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "is_ready", lambda _: False)

    ended = run_as("user", "status", "--json")

    assert (ended.code, ended.document["ready"]) == (75, False)
    assert "is not ready" in ended.error


def test_pictures_are_labelled_in_their_order_however_many_requests_it_takes(
    deployment: Deployment, json_as: JsonAs, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alacarte.cli.model.predict.BATCH_IMAGES", 2)
    source = str(deployment.source)
    with Client(deployment.url, deployment.tokens["user"]) as client:
        truth = client.predict_many(images, sources=[source], task=TASK, top_k=2)

    answers = json_as("user", "predict", *images, "--source", source, "--task", TASK, "--top-k", "2")["answers"]

    assert [answer["image"] for answer in answers] == [str(image) for image in images]
    assert [[scored["label"] for scored in answer["labels"]] for answer in answers] == [
        [scored.label for scored in answer.labels] for answer in truth
    ]
    assert {answer["set_digest"] for answer in answers} == {truth[0].set_digest}


def test_one_request_carries_no_more_than_a_service_takes(
    json_as: JsonAs, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alacarte.cli.model.predict.BATCH_BYTES", images[0].stat().st_size)
    sizes: list[int] = []
    predict_many = Client.predict_many

    def counted(client: Client, pictures: list[Path], **arguments: object) -> object:
        sizes.append(len(pictures))
        return predict_many(client, pictures, **arguments)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(Client, "predict_many", counted)

    assert len(json_as("user", "predict", *images, "--task", TASK)["answers"]) == 5
    assert sizes == [1] * 5


def test_explanations_name_the_sources(
    deployment: Deployment, run_as: RunAs, json_as: JsonAs, images: list[Path]
) -> None:
    name = deployment.new_name("explained")
    with Client(deployment.url, deployment.tokens["owner"]) as owner:
        owner.create_source(name, task=TASK)
        deployment.publish(deployment.add_source())
        (images[0].parent / "prompt.safetensors").write_bytes(prompt_bytes(3))
        owner.push_prompt(name, images[0].parent / "prompt.safetensors")
    arguments = ("predict", images[0], "--source", name, "--explain", "--composition", "vote", "--task", TASK)

    ended = run_as("owner", *arguments)
    [answer] = json_as("owner", *arguments)["answers"]

    assert name in ended.out
    assert [part["weight"] for part in answer["explain"]] == [1.0]
    assert answer["composition"] == "vote"


def test_sources_and_tasks_are_listed_and_shown(deployment: Deployment, run_as: RunAs, json_as: JsonAs) -> None:
    source = str(deployment.source)

    listed = json_as("user", "source", "list", "--task", TASK)["sources"]
    shown = json_as("user", "source", "show", source)

    assert source in {one["id"] for one in listed}
    assert (shown["rights"], shown["labels"]) == (["use"], ["cat", "dog", "owl"])
    assert [shard["state"] for shard in shown["shards"]] == ["remote"]
    assert "remote" in run_as("user", "source", "show", shown["name"], "--task", TASK).out
    assert json_as("user", "task", "show", TASK)["recipe"] == {"epochs": 1}
    assert TASK in {one["name"] for one in json_as("user", "task", "list")["tasks"]}
    assert TASK in run_as("user", "task", "list").out
