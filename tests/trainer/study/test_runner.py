"""The runner performs each training once, and finds its outcome in the cache under everything it depends on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.artifact import prompt_to_bytes
from trainer.baselines.evaluate import classify
from trainer.baselines.prompt_sets import StructuredSet
from trainer.errors import LossNotFinite
from trainer.state_cache import State, StateCache
from trainer.study.plan import StudyPlan
from trainer.study.result_cache import ResultCache
from trainer.study.runner import StudyRunner, cacheable_views, precompute_states
from trainer.study.training_spec import TrainingSpec
from trainer.train import train_prompt, train_shard
from trainer.views import View


def test_a_prompt_of_a_study_has_the_bytes_of_the_trainer(plan: StudyPlan, runner: StudyRunner) -> None:
    shards = plan.shards(3)
    trainings = [plan.prompt_training(shard) for shard in shards]

    runner.train(trainings, plan.test)  # in parallel

    for training in trainings:
        alone = train_shard(runner.backbone, training.samples, plan.recipe, cache_bytes=0)
        assert prompt_to_bytes(runner.prompt(training)) == prompt_to_bytes(alone)


def test_precomputation_stops_when_the_cache_is_full(
    plan: StudyPlan, backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    compute = StateCache._compute
    logged: list[str] = []

    def count_and_compute(cache: StateCache, views: Sequence[View]) -> list[State]:
        computed.append(len(views))
        return compute(cache, views)

    monkeypatch.setattr(StateCache, "_compute", count_and_compute)
    monkeypatch.setattr("trainer.study.runner.VIEWS_PER_BATCH", 4)
    views = cacheable_views([plan.prompt_training(plan.train)])
    with StateCache(backbone, 10**9, views=6, scratch=tmp_path) as cache:
        precompute_states(cache, views, logged.append)

        assert cache.kept_views == 6
    assert sum(computed) <= 12 < len(views)  # the batch after the one that filled it may already be running
    assert logged == [f"the cache holds 6 of {len(views)} views; others are recomputed (--cache-gb)"]


def test_a_cached_outcome_is_not_computed_again(
    plan: StudyPlan, runner: StudyRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = [plan.prompt_training(plan.train), TrainingSpec("bias", plan.train, plan.recipe)]
    runner.train(runner.filter_missing(trainings, plan.test), plan.test)
    before = runner.member_logits(trainings, plan.test)

    monkeypatch.setattr("trainer.study.runner.train_prompt", None)
    monkeypatch.setattr("trainer.study.runner.classify", None)
    after = runner.member_logits(trainings, plan.test)

    assert runner.filter_missing([*trainings, *trainings], plan.test) == []
    for one, other in zip(before.logits, after.logits, strict=True):
        assert torch.equal(one, other)


def test_an_interrupted_run_continues_with_the_rest(
    plan: StudyPlan, backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = plan.shard_trainings(3)
    failing = min(trainings, key=lambda training: len(training.samples))  # the longest start first

    def fail_once(backbone: Backbone, samples: object, *others: object) -> object:
        if samples == failing.samples:
            raise LossNotFinite("loss is nan")
        return train_prompt(backbone, samples, *others)  # type: ignore[arg-type]  # passes its arguments on

    with StateCache(backbone) as cache:
        runner = StudyRunner(backbone, cache, ResultCache(tmp_path), lambda _: None)
        monkeypatch.setattr("trainer.study.runner.train_prompt", fail_once)
        monkeypatch.setattr("trainer.study.runner.available_cores", lambda: 1)
        with pytest.raises(LossNotFinite):
            runner.train(runner.filter_missing(trainings, plan.test), plan.test)
        monkeypatch.undo()

        later = StudyRunner(backbone, cache, ResultCache(tmp_path), lambda _: None)
        assert later.filter_missing(trainings, plan.test) == [failing]


def test_a_damaged_file_is_recomputed(plan: StudyPlan, runner: StudyRunner, tmp_path: Path) -> None:
    trainings = [plan.prompt_training(plan.train)]
    runner.train(trainings, plan.test)
    (file,) = (tmp_path / "cache").iterdir()
    original = file.read_bytes()

    file.write_bytes(original[:-7])
    assert runner.filter_missing(trainings, plan.test) == trainings
    runner.train(trainings, plan.test)

    assert file.read_bytes() == original


@pytest.mark.parametrize("change", ["samples", "label", "recipe", "method"])
def test_the_cache_key_depends_on_samples_labels_recipe_and_method(
    plan: StudyPlan, backbone: Backbone, change: str
) -> None:
    training = plan.prompt_training(plan.train)
    relabelled = replace(plan.train[0], label="another")
    other = {
        "samples": replace(training, samples=plan.train[1:]),
        "label": replace(training, samples=(relabelled, *plan.train[1:])),
        "recipe": replace(training, recipe=replace(plan.recipe, seed=1)),
        "method": replace(training, method="full"),
    }[change]

    assert other.key(backbone) != training.key(backbone)
    assert replace(training, samples=plan.train[::-1]).key(backbone) == training.key(backbone)


def test_logits_of_single_prompts_equal_those_of_the_set(plan: StudyPlan, runner: StudyRunner) -> None:
    trainings = plan.shard_trainings(3)
    runner.train(trainings, plan.test)

    runner.member_logits(trainings[:1], plan.test)  # cached, then joined with the others
    members = runner.member_logits(trainings, plan.test)

    prompts = [runner.prompt(training) for training in trainings]
    together = classify(StructuredSet(runner.backbone, prompts), plan.test, runner.backbone.preprocessing)
    for one, other in zip(members.logits, together.logits, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert members.embedding is not None
    assert members.prototypes is not None
    torch.testing.assert_close(members.compose("average", "prototypes").scores.sum(1), torch.ones(len(plan.test)))


def test_of_a_model_without_a_prompt_the_logits_are_cached(plan: StudyPlan, runner: StudyRunner) -> None:
    tuned = TrainingSpec("fine-tuning", plan.train, plan.recipe)

    runner.train([tuned], plan.test)

    assert runner.member_logits([tuned], plan.test).logits[0].shape == (len(plan.test), 3)
    assert runner.filter_missing([tuned], plan.test[:-1]) == [tuned]  # other pictures are not cached
