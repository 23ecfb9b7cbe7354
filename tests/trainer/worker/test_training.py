"""A worker trains the prompts of sources; their bytes equal those of any other training of the same pictures."""

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
    list_scratch,
    load_prompts,
    load_shards,
    load_task,
    read_bytes,
    read_samples,
    train_all,
    train_directly,
)
from trainer.worker.worker import JobCounts


def test_training_a_source_publishes_readable_prompts_and_sets_the_tasks_backbone(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    task = add_task(registry)
    source = add_source(registry, task, pictures, shards=2)

    counts = train_all(registry, backbone)

    assert counts == JobCounts(published=2, failed=0, lost=0)
    prompts = load_prompts(registry, source)
    seeds = {shard.id: shard.seed for shard in load_shards(registry, source)}
    assert len(prompts) == 2
    assert sum(prompt.samples for prompt in prompts) == 12
    assert load_task(registry, task).identity == backbone.identity
    for prompt in prompts:
        metadata = prompt_from_bytes(read_bytes(registry, prompt)).metadata
        assert (metadata.backbone, list(metadata.labels)) == (backbone.identity, prompt.labels)
        assert metadata.samples == prompt.samples
        assert metadata.seed == seeds[prompt.shard_id] == prompt.artifact_metadata["seed"]
        assert (prompt.artifact_metadata["architecture"], prompt.artifact_metadata["size"]) == (
            metadata.architecture,
            metadata.size,
        )
        assert prompt.artifact_metadata["settings"]["epochs"] == 2
        assert prompt.worker == "ann"
    assert list_scratch(registry) == []


def test_the_bytes_are_those_of_a_training_on_the_same_pictures_in_another_order(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    [shard] = load_shards(registry, source)

    train_all(registry, backbone)

    [prompt] = load_prompts(registry, source)
    assert read_bytes(registry, prompt) == train_directly(backbone, read_samples(pictures)[::-1], shard.seed)


def test_a_retrained_prompt_equals_one_that_never_had_the_forgotten_sample(
    registry: Registry, backbone: Backbone, pictures: Path
) -> None:
    source = add_source(registry, add_task(registry), pictures)
    [shard] = load_shards(registry, source)
    train_all(registry, backbone)
    [before] = load_prompts(registry, source)
    forgotten, *others = read_samples(pictures)

    forget_sample(registry, OPERATOR, source, forgotten.digest)
    assert load_prompts(registry, source) == []
    train_all(registry, backbone)

    [after] = load_prompts(registry, source)
    assert (after.generation, after.samples) == (2, 11)
    assert after.digest != before.digest
    assert read_bytes(registry, after) == train_directly(backbone, others[::-1], shard.seed)
    assert list_scratch(registry) == []


def test_a_shard_of_one_label_is_trained_also_after_the_other_labels_are_forgotten(
    registry: Registry, backbone: Backbone, pictures: Path, tmp_path: Path
) -> None:
    task = add_task(registry)
    alike = add_source(registry, task, draw(tmp_path / "alike", labels=("emu",), each=3), name="alike")
    mixed = add_source(registry, task, pictures, name="mixed")
    [shard] = load_shards(registry, mixed)
    assert train_all(registry, backbone) == JobCounts(published=2, failed=0, lost=0)
    kept = [sample for sample in read_samples(pictures) if sample.label == "cat"]

    for sample in read_samples(pictures):
        if sample not in kept:
            forget_sample(registry, OPERATOR, mixed, sample.digest)
    counts = train_all(registry, backbone)

    assert counts == JobCounts(published=1, failed=0, lost=0)
    [first], [second] = load_prompts(registry, alike), load_prompts(registry, mixed)
    assert (first.labels, second.labels) == (["emu"], ["cat"])
    assert read_bytes(registry, second) == train_directly(backbone, kept, shard.seed)
