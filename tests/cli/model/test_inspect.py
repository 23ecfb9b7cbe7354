"""`alacarte inspect`: the metadata of prompt files, and how small they are."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import timm

from alacarte.prompting.prompt.artifact import prompt_digest, read_prompt, write_prompt
from tests.cli.fixtures import run


def test_the_metadata_and_the_share_of_the_backbone_are_shown(prompts: Path) -> None:
    file = prompts / "shard-0.safetensors"

    (document,) = run("inspect", file, "--json").document["prompts"]

    model = timm.create_model("vit_tiny_patch16_224", num_classes=0, img_size=32)
    assert document["digest"] == prompt_digest(file.read_bytes())
    assert document["bytes"] == file.stat().st_size
    assert document["tensors"]["memory"] == [12, 5, 192]
    assert document["parameters"] == 192 + 12 * 5 * 192 + 3 * 192 + 3
    assert document["backbone_parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert document["settings"]["epochs"] == 1


def test_every_file_is_shown_in_a_table(prompts: Path) -> None:
    ended = run("inspect", *sorted(prompts.iterdir()))

    assert ended.code == 0
    assert "shard-0" in ended.out
    assert "shard-1" in ended.out
    assert "% of the backbone's" in ended.out


def change_metadata(prompt_file: Path, out: Path, **changes: Any) -> Path:  # Any: values of PromptMetadata
    prompt = read_prompt(prompt_file)
    write_prompt(replace(prompt, metadata=replace(prompt.metadata, **changes)), out)
    return out


def test_an_architecture_that_timm_does_not_know_has_no_share(prompts: Path, tmp_path: Path) -> None:
    mars = change_metadata(prompts / "shard-0.safetensors", tmp_path / "mars", architecture="vit_of_mars")

    (document,) = run("inspect", mars, "--json").document["prompts"]

    assert (document["backbone_parameters"], document["share"]) == (None, None)
    assert run("inspect", mars).code == 0


def test_control_characters_and_markup_in_labels_do_not_reach_the_terminal(prompts: Path, tmp_path: Path) -> None:
    labels = ("\x1b[2Jcat", "[red]dog", "émeu")

    ended = run("inspect", change_metadata(prompts / "shard-0.safetensors", tmp_path / "odd", labels=labels))

    assert "\x1b" not in ended.out
    assert "[red]dog" in ended.out
    assert "émeu" in ended.out


def test_a_file_that_is_no_prompt_is_named_with_the_reason(pictures: Path) -> None:
    ended = run("inspect", pictures / "cat/0.png")

    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(f"{pictures / 'cat/0.png'}: not a safetensors file")
