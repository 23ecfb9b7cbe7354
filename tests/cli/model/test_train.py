"""`alacarte train`: what it writes, and what it refuses before it has done any work."""

import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import trainer.train
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import prompt_digest, read_prompt
from alacarte.prompting.prompt.tensors import TrainedPrompt
from tests.cli.fixtures import BACKBONE, TINY, draw, run
from trainer.recipe import DEFAULT, PAPER, RECIPES
from trainer.schedule import PROMPT_RATE
from trainer.state_cache import StateCache
from trainer.train import train_prompt


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_each_shard_gets_a_file_and_all_samples_are_in_one_of_them(prompts: Path) -> None:
    metadata = [read_prompt(path).metadata for path in sorted(prompts.iterdir())]

    assert names_in(prompts) == ["shard-0.safetensors", "shard-1.safetensors"]
    assert sum(one.samples for one in metadata) == 24
    assert {one.labels for one in metadata} == {("cat", "dog", "emu")}


def test_the_help_shows_what_the_recipes_have() -> None:
    text = " ".join(run("train", "--help").out.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", " ").split())

    default, paper = RECIPES[DEFAULT], RECIPES[PAPER]
    assert f"{default.epochs}; paper: {paper.epochs}" in text
    assert f"{default.batch}; paper: {paper.batch}" in text
    assert f"{default.base_rate:g}; paper: {PROMPT_RATE:g}" in text
    assert f"{default.views}; paper:" in text


def test_the_document_shows_what_the_files_hold(pictures: Path, tmp_path: Path) -> None:
    ended = run("train", pictures, "--out", tmp_path / "prompts", "--shards", "2", "--json", *TINY)

    described = ended.document["prompts"]
    assert [shard["shard"] for shard in described] == [0, 1]
    for shard in described:
        file = Path(shard["file"])
        assert prompt_digest(file.read_bytes()) == shard["digest"]
        assert read_prompt(file).metadata.samples == shard["samples"]
        assert shard["loss"] > 0
    assert ended.document["backbone"]["size"] == 32
    assert "epoch 1 of 1" in ended.err
    assert "one label only" not in ended.err


def test_the_same_seed_gives_the_same_bytes_and_another_splits_otherwise(
    pictures: Path, prompts: Path, tmp_path: Path
) -> None:
    run("train", pictures, "--out", tmp_path / "again", "--shards", "2", *TINY)
    run("train", pictures, "--out", tmp_path / "other", "--shards", "2", "--seed", "1", *TINY)

    def samples(folder: Path) -> list[bytes]:
        return [path.read_bytes() for path in sorted(folder.iterdir())]

    assert samples(tmp_path / "again") == samples(prompts)
    assert samples(tmp_path / "other") != samples(prompts)


def test_an_archive_teaches_what_its_folder_teaches(pictures: Path, prompts: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as archive:
        for path in pictures.rglob("*.png"):
            archive.write(path, path.relative_to(pictures))
    scratch = tmp_path / "scratch"

    ended = run(
        "train", tmp_path / "pictures.zip", "--out", tmp_path / "out", "--shards", "2", "--scratch", scratch, *TINY
    )

    assert ended.code == 0
    assert (tmp_path / "out/shard-1.safetensors").read_bytes() == (prompts / "shard-1.safetensors").read_bytes()
    assert names_in(scratch) == []


@pytest.mark.parametrize(
    ("augment", "views", "views_cached"), [("none", None, 24), ("randaugment", 2, 48), ("randaugment", None, 0)]
)
def test_room_is_made_only_for_views_that_are_seen_again(
    augment: str, views: int | None, views_cached: int, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[int] = []

    class Spy(StateCache):
        def __init__(self, backbone: Backbone, budget_bytes: int, views: int, scratch: Path | None) -> None:
            requested.append(views)
            super().__init__(backbone, budget_bytes, views, scratch)

    monkeypatch.setattr(trainer.train, "StateCache", Spy)
    settings = ["--size", "32", "--epochs", "3", "--augment", augment, *(["--views", str(views)] if views else [])]

    ended = run("train", pictures, "--out", tmp_path / "out", "--shards", "1", *BACKBONE, *settings)

    assert (ended.code, requested) == (0, [views_cached])


def test_a_prompt_of_one_label_is_trained_and_its_limits_are_printed(tmp_path: Path) -> None:
    data, out = draw(tmp_path / "data", ("cat",)), tmp_path / "out"

    ended = run("train", data, "--out", out, "--shards", "2", *TINY, "--json")

    assert ended.code == 0
    assert [shard["labels"] for shard in ended.document["prompts"]] == [["cat"], ["cat"]]
    assert "2 of 2 shards have pictures of one label only, 'cat' the first" in ended.err
    assert "useful only together with others" in ended.err
    answer = run("predict", data / "cat/0.png", "--prompts", out, "--weights", "random", "--json")
    assert answer.document["answers"][0]["labels"] == [{"label": "cat", "score": 1.0}]


def test_a_shard_without_pictures_is_named_before_anything_is_trained(pictures: Path, tmp_path: Path) -> None:
    ended = run("train", pictures, "--out", tmp_path / "out", "--shards", "24", *TINY)

    assert ended.code == 1
    assert ended.error.startswith("shard-0")
    assert "epoch" not in ended.err
    assert not (tmp_path / "out").exists()


def test_prompts_of_an_earlier_training_are_kept(pictures: Path, prompts: Path, tmp_path: Path) -> None:
    shutil.copytree(prompts, tmp_path / "prompts")
    before = (tmp_path / "prompts/shard-1.safetensors").read_bytes()

    ended = run("train", pictures, "--out", tmp_path / "prompts", "--shards", "1", *TINY)

    assert ended.code == 1
    assert "--force" in ended.error
    assert (tmp_path / "prompts/shard-1.safetensors").read_bytes() == before


def test_force_leaves_nothing_of_an_earlier_training_but_other_files(
    pictures: Path, prompts: Path, tmp_path: Path
) -> None:
    shutil.copytree(prompts, tmp_path / "prompts")
    (tmp_path / "prompts/notes.txt").write_text("mine")

    ended = run("train", pictures, "--out", tmp_path / "prompts", "--shards", "1", "--force", *TINY)

    assert ended.code == 0
    assert names_in(tmp_path / "prompts") == ["notes.txt", "shard-0.safetensors"]
    assert read_prompt(tmp_path / "prompts/shard-0.safetensors").metadata.samples == 24


def test_an_unreadable_picture_is_named_or_left_out(tmp_path: Path) -> None:
    data = draw(tmp_path / "data")
    (data / "cat/torn.png").write_bytes(b"\x89PNG\r\n\x1a\n torn")

    refused = run("train", data, "--out", tmp_path / "out", "--shards", "1", *TINY)
    skipped = run("train", data, "--out", tmp_path / "out", "--shards", "1", "--skip-unreadable", "--json", *TINY)

    assert refused.code == 1
    assert "torn.png" in refused.error
    assert [left["name"] for left in skipped.document["left_out"]] == ["cat/torn.png"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("{data}/nowhere",), 1, "error: {data}/nowhere: No such file or directory"),
        (("{data}", "--shards", "100000000000"), 1, "error: 24 pictures cannot make 100000000000 shards: use fewer"),
        (
            ("{data}", "--out", "{data}/cat/0.png"),
            1,
            "error: {data}/cat/0.png is not a folder: give another with --out",
        ),
        (("{data}", "--size", "33"), 1, "16"),
        (("{data}", "--size", "8"), 1, "16"),
        (("{data}", "--device", "abacus"), 2, "abacus"),
    ],
)
def test_what_cannot_be_trained_is_reported(
    arguments: tuple[str, ...], code: int, message: str, pictures: Path, tmp_path: Path
) -> None:
    given = [argument.format(data=pictures) for argument in arguments]

    ended = run("train", "--out", tmp_path / "out", *TINY, *given)

    assert (ended.code, ended.out) == (code, "")
    assert message.format(data=pictures) in ended.err


def test_an_interrupted_training_keeps_what_is_finished_and_no_half_of_anything(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[TrainedPrompt] = []

    def interrupted(*arguments: Any) -> TrainedPrompt:  # Any: whatever training takes
        if trained:
            raise KeyboardInterrupt
        trained.append(train_prompt(*arguments))
        return trained[0]

    monkeypatch.setattr(trainer.train, "train_prompt", interrupted)

    ended = run("train", pictures, "--out", tmp_path / "out", "--shards", "2", *TINY)

    assert (ended.code, ended.error) == (130, "interrupted")
    assert names_in(tmp_path / "out") == ["shard-0.safetensors"]
