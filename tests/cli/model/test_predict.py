"""`alacarte predict`: answers by prompts that are found, on the backbone that they were trained on."""

import os
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from alacarte.prompting.predict import ImagePrediction, Predictor, set_digest
from alacarte.prompting.prompt.artifact import prompt_digest
from tests.cli.fixtures import BACKBONE, TINY, run

RANDOM = ("--weights", "random")


def test_the_labels_of_each_picture_and_the_own_answers_of_prompts_are_shown(pictures: Path, prompts: Path) -> None:
    images = (pictures / "cat/0.png", pictures / "dog/1.png")

    ended = run("predict", *images, "--prompts", prompts, "--explain", *RANDOM)

    assert ended.code == 0
    assert all(f"{image}\n" in ended.out for image in images)
    assert all(ended.out.count(label) >= 2 for label in ("cat", "dog", "emu"))
    assert "shard-1.safetensors" in ended.out
    assert "0.5000" in ended.out


def test_the_document_has_the_best_labels_of_every_picture_in_order(pictures: Path, prompts: Path) -> None:
    images = [pictures / "cat/0.png", pictures / "dog/1.png"]

    ended = run("predict", *images, "--prompts", prompts, "--top-k", "2", "--json", *RANDOM)

    answers = ended.document["answers"]
    assert [answer["image"] for answer in answers] == [str(image) for image in images]
    for answer in answers:
        scores = [label["score"] for label in answer["labels"]]
        assert len(scores) == 2
        assert scores == sorted(scores, reverse=True)
        assert "explain" not in answer
    digests = [prompt_digest(path.read_bytes()) for path in prompts.iterdir()]
    assert ended.document["set_digest"] == set_digest(digests)


def test_explaining_adds_each_prompts_weight_and_own_answer(pictures: Path, prompts: Path) -> None:
    ended = run(
        "predict", pictures / "cat/0.png", "--prompts", prompts, "--explain", "--weighting", "prototypes", "--json",
        *RANDOM,
    )  # fmt: skip

    members = ended.document["answers"][0]["explain"]
    assert [Path(member["prompt"]).name for member in members] == ["shard-0.safetensors", "shard-1.safetensors"]
    assert sum(member["weight"] for member in members) == pytest.approx(1)
    assert all(sum(label["score"] for label in member["labels"]) == pytest.approx(1) for member in members)


def test_a_folder_a_pattern_and_the_files_mean_the_same_set(pictures: Path, prompts: Path) -> None:
    files = sorted(prompts.iterdir())
    ways: list[list[str | Path]] = [
        [prompts],
        [prompts / "*.safetensors"],
        [*files],
        [prompts, f"{prompts}{os.sep}..{os.sep}prompts", files[1]],
    ]

    documents = []
    for way in ways:
        named = [argument for name in way for argument in ("--prompts", name)]
        documents.append(run("predict", pictures / "emu/0.png", *named, "--json", *RANDOM).document)

    assert all(document == documents[0] for document in documents)


def test_many_pictures_are_answered_in_small_batches(
    pictures: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = sorted(pictures.rglob("*.png"))
    batch_sizes: list[int] = []

    class Spy(Predictor):
        def predict(self, images: Tensor, *arguments: Any) -> list[ImagePrediction]:  # Any: as of Predictor
            batch_sizes.append(len(images))
            return super().predict(images, *arguments)

    monkeypatch.setattr("alacarte.prompting.predict.Predictor", Spy)

    ended = run("predict", *images, "--prompts", prompts, "--json", *RANDOM)

    assert batch_sizes == [16, 8]
    assert [answer["image"] for answer in ended.document["answers"]] == [str(image) for image in images]


def test_prompts_of_two_backbones_are_both_named(pictures: Path, prompts: Path, tmp_path: Path) -> None:
    run("train", pictures, "--out", tmp_path / "48", "--shards", "1", *TINY, "--size", "48")

    ended = run("predict", pictures / "cat/0.png", "--prompts", prompts, "--prompts", tmp_path / "48", *RANDOM)

    assert ended.code == 1
    assert str(prompts / "shard-0.safetensors") in ended.error
    assert str(tmp_path / "48/shard-0.safetensors") in ended.error
    assert "at 32 px" in ended.error
    assert "at 48 px" in ended.error


def test_the_same_name_as_in_training_is_accepted(pictures: Path, prompts: Path) -> None:
    assert run("predict", pictures / "cat/0.png", "--prompts", prompts, *BACKBONE).code == 0


PROMPTS = ("--prompts", "{prompts}")
# name -> arguments, exit code, and a part of the error
REFUSED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "a pattern without match": (("{cat}", "--prompts", "{tmp}/*.safetensors"), 1, "{tmp}"),
    "a missing prompt": (("{cat}", "--prompts", "{tmp}/none.safetensors"), 1, "{tmp}/none.safetensors"),
    "a folder without prompts": (("{cat}", "--prompts", "{tmp}/"), 1, "{tmp}"),
    "a pattern of folders": (("{cat}", "--prompts", "{tmp}/fold*"), 1, "error: no prompt file matches {tmp}/fold*"),
    "another backbone": (("{cat}", *PROMPTS, "--backbone", "vit_tiny_patch16_384"), 1, "give again"),
    "an unreadable picture": (("{tmp}/torn.png", *PROMPTS, "--json"), 1, "error: {tmp}/torn.png cannot be read"),
    "a missing picture": (("{tmp}/gone.png", *PROMPTS), 1, "gone.png"),
    "a pattern that was not quoted": (("{cat}", "--prompts", "{first}", "{second}"), 2, "quote the pattern"),
    "weighted votes": (("{cat}", *PROMPTS, "--composition", "vote", "--weighting", "prototypes"), 2, "weighted"),
    "a device that cannot be read": (("{cat}", *PROMPTS, "--device", "meta"), 2, "'meta' cannot be used here"),
    "a source beside files": (
        ("{cat}", *PROMPTS, "--source", "pets"),
        1,
        "error: --source is for a service: leave it out, or leave out --prompts",
    ),
    "neither files nor a service": (("{cat}",), 1, "give prompt files with --prompts, or a service with --url"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_predicted_is_reported(
    case: str, pictures: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ALACARTE_URL", raising=False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "torn.png").write_bytes(b"no picture")
    first, second = sorted(prompts.iterdir())
    names = {"cat": pictures / "cat/0.png", "prompts": prompts, "first": first, "second": second, "tmp": tmp_path}
    arguments, code, message = REFUSED[case]

    ended = run("predict", *(argument.format(**names) for argument in arguments), *RANDOM)

    assert (ended.code, ended.out) == (code, "")
    assert message.format(**names) in " ".join(ended.err.replace("│", " ").split())
    assert code == 2 or len(ended.err.splitlines()) == 1 or case == "an unreadable picture"  # after the backbone
