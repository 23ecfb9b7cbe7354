"""Predictions through the client."""

from pathlib import Path

import pytest

from alacarte.client import Client, ServiceProblem
from tests.client.conftest import ClientOf
from tests.service.deployment import LABELS, TASK, Deployment, picture


def test_a_prediction_equals_the_response_of_the_service(
    deployment: Deployment, client_of: ClientOf, tmp_path: Path
) -> None:
    file = tmp_path / "cat.png"
    file.write_bytes(picture(3))
    source = deployment.add_source()
    deployment.publish(source, 1)
    response = deployment.request(
        "user", "POST", "/predict", files={"image": picture(3)}, data={"sources": str(source), "top_k": "2"}
    ).json()

    answer = client_of("user").predict(file, sources=[str(source)], top_k=2)

    [result] = response["results"]
    assert [one.label for one in answer.labels] == [one["label"] for one in result["labels"]]
    assert [one.score for one in answer.labels] == pytest.approx([one["score"] for one in result["labels"]], abs=1e-4)
    assert (answer.label, answer.score) == (answer.labels[0].label, answer.labels[0].score)
    assert answer.sources == [source]
    assert answer.set_digest == response["set_digest"]
    assert answer.explain is None


def test_several_predictions_are_in_the_order_of_the_pictures(client_of: ClientOf) -> None:
    client = client_of("user")
    pictures = [picture(1), picture(120), picture(250)]

    together = client.predict_many(pictures, task=TASK, top_k=3)

    for one, alone in zip(together, [client.predict(one, task=TASK, top_k=3) for one in pictures], strict=True):
        assert [scored.label for scored in one.labels] == [scored.label for scored in alone.labels]
        assert one.score == pytest.approx(alone.score, abs=1e-4)


def test_all_options_are_passed_on(deployment: Deployment, client_of: ClientOf) -> None:
    source = deployment.add_source()
    deployment.publish(source, 1)
    deployment.publish(source, 2)
    release = deployment.new_name("release")
    client_of("admin").pin_release(TASK, release)
    deployment.publish(source, 3)

    answer = client_of("user").predict(
        picture(),
        sources=[client_of("user").get_source(str(source)).name],
        task=TASK,
        release=release,
        composition="concat",
        weighting="prototypes",
        explain=True,
    )

    assert (answer.composition, answer.weighting) == ("concat", "prototypes")
    assert answer.explain is not None
    [explanation] = answer.explain
    assert explanation.source == source
    assert len(explanation.prompts) == 2  # as the release pins them
    assert {one.label for one in explanation.labels} <= set(LABELS)


def test_a_problem_has_status_title_and_detail(client_of: ClientOf) -> None:
    with pytest.raises(ServiceProblem) as caught:
        client_of("stranger").predict(picture(), task=TASK)

    problem = caught.value
    assert (problem.status, problem.kind, problem.title) == (409, "no-usable-prompts", "No usable prompts")
    assert "grant" in problem.detail
    assert problem.request_id
    assert str(problem) == f"No usable prompts (409): {problem.detail}"


def test_the_problem_of_a_wrong_token_does_not_show_the_token(deployment: Deployment) -> None:
    secret = "alc_abcdefghijkl_" + "s" * 43
    with Client(deployment.url, secret) as client, pytest.raises(ServiceProblem) as caught:
        client.get_current_user()

    assert caught.value.status == 401
    assert "sss" not in f"{client!r} {caught.value!r} {caught.value}"


def test_a_string_is_not_taken_for_a_list_of_sources(client_of: ClientOf) -> None:
    with pytest.raises(TypeError, match="list"):
        client_of("user").predict(picture(), sources="ann")


def test_an_empty_list_of_sources_never_means_all_of_them(client_of: ClientOf) -> None:
    with pytest.raises(ValueError, match="the list of sources is empty"):
        client_of("user").predict(picture(), task=TASK, sources=[])
    with pytest.raises(ValueError, match="the list of sources is empty"):
        client_of("user").predict_many([picture()], task=TASK, sources=iter(()))


def test_a_missing_file_is_named(client_of: ClientOf, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        client_of("user").predict(tmp_path / "nowhere.png")
