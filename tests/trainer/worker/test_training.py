"""A worker turns sources into prompts, and its bytes are those of any other training of the same pictures."""

from pathlib import Path

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import prompt_from_bytes
from registry.access.caller import OPERATOR
from registry.erasure.request import forget_sample
from registry.registry import Registry
from tests.cli.fixtures import draw
from tests.trainer.worker.fixtures import (
    add_source,
    add_task,
    bytes_of,
    files_in_scratch,
    prompts_of,
    samples_in,
    shards_of,
    task_now,
    train_directly,
    work_off,
)
from trainer.worker.worker import JobCounts


def test_a_source_becomes_prompts_that_can_be_read_and_that_pin_the_task(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    task = add_task(registry)
    source = add_source(registry, task, pictures, shards=2)

    tally = work_off(registry, backbone)

    assert tally == JobCounts(published=2, failed=0, lost=0)
    prompts = prompts_of(registry, source)
    seeds = {shard.id: shard.seed for shard in shards_of(registry, source)}
    assert len(prompts) == 2
    assert sum(prompt.samples for prompt in prompts) == 12
    assert task_now(registry, task).identity == backbone.identity
    for prompt in prompts:
        facts = prompt_from_bytes(bytes_of(registry, prompt)).metadata
        assert (facts.backbone, list(facts.labels)) == (backbone.identity, prompt.labels)
        assert facts.samples == prompt.samples
        assert facts.seed == seeds[prompt.shard_id] == prompt.artifact_metadata["seed"]
        assert (prompt.artifact_metadata["architecture"], prompt.artifact_metadata["size"]) == (
            facts.architecture,
            facts.size,
        )
        assert prompt.artifact_metadata["settings"]["epochs"] == 2
        assert prompt.worker == "ann"
    assert files_in_scratch(registry) == []


def test_the_bytes_are_those_of_a_training_on_the_same_pictures_in_another_order(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    [shard] = shards_of(registry, source)

    work_off(registry, backbone)

    [prompt] = prompts_of(registry, source)
    assert bytes_of(registry, prompt) == train_directly(backbone, samples_in(pictures)[::-1], shard.seed)


def test_a_retrained_prompt_has_the_bytes_of_never_having_seen_the_forgotten_sample(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    [shard] = shards_of(registry, source)
    work_off(registry, backbone)
    [before] = prompts_of(registry, source)
    forgotten, *others = samples_in(pictures)

    forget_sample(registry, OPERATOR, source, forgotten.digest)
    assert prompts_of(registry, source) == []
    work_off(registry, backbone)

    [after] = prompts_of(registry, source)
    assert (after.generation, after.samples) == (2, 11)
    assert after.digest != before.digest
    assert bytes_of(registry, after) == train_directly(backbone, others[::-1], shard.seed)
    assert files_in_scratch(registry) == []


def test_a_source_of_one_label_is_trained_and_so_is_one_that_is_forgotten_down_to_one(
    registry: Registry, backbone: Backbone, pictures: Path, tmp_path: Path
) -> None:
    task = add_task(registry)
    alike = add_source(registry, task, draw(tmp_path / "alike", labels=("emu",), each=3), name="alike")
    mixed = add_source(registry, task, pictures, name="mixed")
    [shard] = shards_of(registry, mixed)
    assert work_off(registry, backbone) == JobCounts(published=2, failed=0, lost=0)
    kept = [sample for sample in samples_in(pictures) if sample.label == "cat"]

    for sample in samples_in(pictures):
        if sample not in kept:
            forget_sample(registry, OPERATOR, mixed, sample.digest)
    tally = work_off(registry, backbone)

    assert tally == JobCounts(published=1, failed=0, lost=0)
    [first], [second] = prompts_of(registry, alike), prompts_of(registry, mixed)
    assert (first.labels, second.labels) == (["emu"], ["cat"])
    assert bytes_of(registry, second) == train_directly(backbone, kept, shard.seed)
