"""`alacarte predict`: answers by prompts that are found, on the backbone that they were trained on."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image
from torch import Tensor

from alacarte.api.literals import Composition, Weighting
from alacarte.prompting.predict import ImagePrediction, Predictor, set_digest
from alacarte.prompting.prompt.artifact import prompt_digest
from tests.cli.fixtures import BACKBONE, TINY, run

RANDOM = ("--weights", "random")


def test_the_label_and_score_of_each_picture_are_shown(pictures: Path, prompts: Path) -> None:
    ended = run("predict", pictures / "cat/0.png", pictures / "dog/1.png", "--prompts", prompts, *RANDOM)

    assert ended.code == 0
    assert f"{pictures / 'cat/0.png'}\n" in ended.out
    assert f"{pictures / 'dog/1.png'}\n" in ended.out
    assert all(ended.out.count(label) >= 2 for label in ("cat", "dog", "emu"))


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


def test_a_prompts_own_answer_is_in_the_table_too(pictures: Path, prompts: Path) -> None:
    ended = run("predict", pictures / "cat/0.png", "--prompts", prompts, "--explain", *RANDOM)

    assert "shard-1.safetensors" in ended.out
    assert "0.5000" in ended.out


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
    seen: list[int] = []

    class Spy(Predictor):
        def predict(
            self,
            images: Tensor,
            sets: Sequence[Sequence[str]],
            composition: Composition = "average",
            weighting: Weighting = "none",
        ) -> list[ImagePrediction]:
            seen.append(len(images))
            return super().predict(images, sets, composition, weighting)

    monkeypatch.setattr("alacarte.prompting.predict.Predictor", Spy)

    ended = run("predict", *images, "--prompts", prompts, "--json", *RANDOM)

    assert seen == [16, 8]
    assert [answer["image"] for answer in ended.document["answers"]] == [str(image) for image in images]


def test_no_match_is_reported(pictures: Path, tmp_path: Path) -> None:
    for name in ("*.safetensors", "none.safetensors", ""):
        ended = run("predict", pictures / "cat/0.png", "--prompts", f"{tmp_path}/{name}", *RANDOM)

        assert (ended.code, ended.out) == (1, "")
        assert str(tmp_path) in ended.error


def test_prompts_of_two_backbones_are_both_named(pictures: Path, prompts: Path, tmp_path: Path) -> None:
    run("train", pictures, "--out", tmp_path / "48", "--shards", "1", *TINY, "--size", "48")

    ended = run("predict", pictures / "cat/0.png", "--prompts", prompts, "--prompts", tmp_path / "48", *RANDOM)

    assert ended.code == 1
    assert str(prompts / "shard-0.safetensors") in ended.error
    assert str(tmp_path / "48/shard-0.safetensors") in ended.error
    assert "at 32 px" in ended.error
    assert "at 48 px" in ended.error


def test_another_backbone_by_name_is_refused_with_advice(pictures: Path, prompts: Path) -> None:
    ended = run("predict", pictures / "cat/0.png", "--prompts", prompts, "--backbone", "vit_tiny_patch16_384", *RANDOM)

    assert ended.code == 1
    assert "give again" in ended.error


def test_the_same_name_as_in_training_is_accepted(pictures: Path, prompts: Path) -> None:
    assert run("predict", pictures / "cat/0.png", "--prompts", prompts, *BACKBONE).code == 0


def test_an_unreadable_picture_is_one_line_with_its_name(prompts: Path, tmp_path: Path) -> None:
    (tmp_path / "torn.png").write_bytes(b"no picture")

    ended = run("predict", tmp_path / "torn.png", "--prompts", prompts, "--json", *RANDOM)

    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(f"{tmp_path / 'torn.png'} cannot be read")


def test_a_missing_picture_is_reported_before_any_backbone_is_built(prompts: Path, tmp_path: Path) -> None:
    ended = run("predict", tmp_path / "gone.png", "--prompts", prompts, *RANDOM)

    assert (ended.code, len(ended.err.splitlines())) == (1, 1)
    assert "gone.png" in ended.error


def test_a_prompt_among_the_pictures_means_that_a_pattern_was_not_quoted(pictures: Path, prompts: Path) -> None:
    first, second = sorted(prompts.iterdir())

    ended = run("predict", pictures / "cat/0.png", "--prompts", first, second, *RANDOM)

    assert ended.code == 2
    assert "quote the pattern" in " ".join(ended.err.replace("│", " ").split())


def test_weighted_votes_are_a_usage_error(pictures: Path, prompts: Path) -> None:
    weighted = ("--composition", "vote", "--weighting", "prototypes")

    assert run("predict", pictures / "cat/0.png", "--prompts", prompts, *weighted).code == 2


def test_a_pattern_that_matches_only_folders_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    picture = tmp_path / "picture.png"
    Image.new("RGB", (8, 8)).save(picture)

    ended = run("predict", picture, "--prompts", f"{tmp_path}/fold*")

    assert ended.error == f"no prompt file matches {tmp_path}/fold*"


def test_a_device_that_cannot_be_read_is_a_usage_error(prompts: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    Image.new("RGB", (8, 8)).save(picture)

    ended = run("predict", picture, "--prompts", prompts, "--device", "meta", "--weights", "random")

    assert ended.code == 2
    assert "'meta' cannot be used here" in ended.err


def test_options_of_a_service_are_refused_beside_prompt_files(pictures: Path, prompts: Path) -> None:
    ended = run("predict", pictures / "cat/0.png", "--prompts", prompts, "--source", "pets")

    assert ended.error == "--source is for a service: leave it out, or leave out --prompts"


def test_prompt_files_or_a_service_are_needed(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALACARTE_URL", raising=False)

    assert "give prompt files with --prompts, or a service with --url" in run("predict", pictures / "cat/0.png").error
