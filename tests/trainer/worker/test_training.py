"""A worker trains the prompts of sources; their bytes equal those of any other training of the same pictures."""

from pathlib import Path

from alacarte.prompting.prompt.artifact import prompt_from_bytes
from registry.access.caller import OPERATOR
from registry.erasure.request import forget_sample
from tests.cli.fixtures import draw
from tests.trainer.worker.fixtures import WorkerHarness, read_samples
from trainer.worker.worker import JobCounts


def test_training_a_source_publishes_readable_prompts_and_sets_the_tasks_backbone(harness: WorkerHarness) -> None:
    task = harness.add_task()
    source = harness.add_source(task, shards=2)

    counts = harness.train_all()

    assert counts == JobCounts(published=2, failed=0, lost=0)
    prompts = harness.load_prompts(source)
    seeds = {shard.id: shard.seed for shard in harness.load_shards(source)}
    assert len(prompts) == 2
    assert sum(prompt.samples for prompt in prompts) == 12
    assert harness.load_task(task).identity == harness.backbone.identity
    for prompt in prompts:
        metadata = prompt_from_bytes(harness.read_bytes(prompt)).metadata
        assert (metadata.backbone, list(metadata.labels)) == (harness.backbone.identity, prompt.labels)
        assert metadata.samples == prompt.samples
        assert metadata.seed == seeds[prompt.shard_id] == prompt.artifact_metadata["seed"]
        assert (prompt.artifact_metadata["architecture"], prompt.artifact_metadata["size"]) == (
            metadata.architecture,
            metadata.size,
        )
        assert prompt.artifact_metadata["settings"]["epochs"] == 2
        assert prompt.worker == "ann"
    assert harness.list_scratch() == []


def test_the_bytes_are_those_of_a_training_on_the_same_pictures_in_another_order(harness: WorkerHarness) -> None:
    source = harness.add_source()
    [shard] = harness.load_shards(source)

    harness.train_all()

    [prompt] = harness.load_prompts(source)
    assert harness.read_bytes(prompt) == harness.train_directly(read_samples(harness.pictures)[::-1], shard.seed)


def test_a_retrained_prompt_equals_one_that_never_had_the_forgotten_sample(harness: WorkerHarness) -> None:
    source = harness.add_source()
    [shard] = harness.load_shards(source)
    harness.train_all()
    [before] = harness.load_prompts(source)
    forgotten, *others = read_samples(harness.pictures)

    forget_sample(harness.registry, OPERATOR, source, forgotten.digest)
    assert harness.load_prompts(source) == []
    harness.train_all()

    [after] = harness.load_prompts(source)
    assert (after.generation, after.samples) == (2, 11)
    assert after.digest != before.digest
    assert harness.read_bytes(after) == harness.train_directly(others[::-1], shard.seed)
    assert harness.list_scratch() == []


def test_a_shard_of_one_label_is_trained_also_after_the_other_labels_are_forgotten(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    task = harness.add_task()
    alike = harness.add_source(task, draw(tmp_path / "alike", labels=("emu",), each=3), name="alike")
    mixed = harness.add_source(task, name="mixed")
    [shard] = harness.load_shards(mixed)
    assert harness.train_all() == JobCounts(published=2, failed=0, lost=0)
    cats = [sample for sample in read_samples(harness.pictures) if sample.label == "cat"]

    for sample in read_samples(harness.pictures):
        if sample not in cats:
            forget_sample(harness.registry, OPERATOR, mixed, sample.digest)
    counts = harness.train_all()

    assert counts == JobCounts(published=1, failed=0, lost=0)
    [first], [second] = harness.load_prompts(alike), harness.load_prompts(mixed)
    assert (first.labels, second.labels) == (["emu"], ["cat"])
    assert harness.read_bytes(second) == harness.train_directly(cats, shard.seed)
