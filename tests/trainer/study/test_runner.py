"""The laboratory: everything is done once, kept under what it depends on, and found again."""

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
    wanted = [plan.prompt_training(shard) for shard in shards]

    runner.train(wanted, plan.test)  # side by side

    for training in wanted:
        alone = train_shard(runner.backbone, training.samples, plan.recipe, cache_bytes=0)
        assert prompt_to_bytes(runner.prompt(training)) == prompt_to_bytes(alone)


def test_nothing_is_seen_in_vain_when_the_cache_is_full(
    plan: StudyPlan, backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    compute = StateCache._compute
    said: list[str] = []

    def counted(cache: StateCache, views: Sequence[View]) -> list[State]:
        seen.append(len(views))
        return compute(cache, views)

    monkeypatch.setattr(StateCache, "_compute", counted)
    monkeypatch.setattr("trainer.study.runner.VIEWS_PER_BATCH", 4)
    views = cacheable_views([plan.prompt_training(plan.train)])
    with StateCache(backbone, 10**9, views=6, scratch=tmp_path) as cache:
        precompute_states(cache, views, said.append)

        assert cache.kept_views == 6
    assert sum(seen) <= 12 < len(views)  # the batch after the one that filled it may be under way
    assert said == [f"the cache holds 6 of {len(views)} views; others are recomputed (--cache-gb)"]


def test_what_is_kept_is_not_done_again(plan: StudyPlan, runner: StudyRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [plan.prompt_training(plan.train), TrainingSpec("bias", plan.train, plan.recipe)]
    runner.train(runner.filter_missing(wanted, plan.test), plan.test)
    before = runner.member_logits(wanted, plan.test)

    def never(*_: object) -> None:
        raise AssertionError("it was trained or asked again")

    monkeypatch.setattr("trainer.study.runner.train_prompt", never)
    monkeypatch.setattr("trainer.study.runner.classify", never)
    after = runner.member_logits(wanted, plan.test)

    assert runner.filter_missing([*wanted, *wanted], plan.test) == []
    for one, other in zip(before.logits, after.logits, strict=True):
        assert torch.equal(one, other)


def test_a_run_that_was_interrupted_goes_on_with_what_is_left(
    plan: StudyPlan, backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [plan.prompt_training(shard) for shard in plan.shards(3)]
    spoilt = min(wanted, key=lambda training: len(training.samples))  # the longest begin first

    def stumble(backbone: Backbone, samples: object, *others: object) -> object:
        if samples == spoilt.samples:
            raise LossNotFinite("the lamp went out")
        return train_prompt(backbone, samples, *others)  # type: ignore[arg-type]  # whatever was given is passed on

    with StateCache(backbone) as cache:
        runner = StudyRunner(backbone, cache, ResultCache(tmp_path), lambda _: None)
        monkeypatch.setattr("trainer.study.runner.train_prompt", stumble)
        monkeypatch.setattr("trainer.study.runner.available_cores", lambda: 1)
        with pytest.raises(LossNotFinite):
            runner.train(runner.filter_missing(wanted, plan.test), plan.test)
        monkeypatch.undo()

        later = StudyRunner(backbone, cache, ResultCache(tmp_path), lambda _: None)
        assert later.filter_missing(wanted, plan.test) == [spoilt]


def test_a_damaged_file_is_made_anew(plan: StudyPlan, runner: StudyRunner, tmp_path: Path) -> None:
    wanted = [plan.prompt_training(plan.train)]
    runner.train(wanted, plan.test)
    (file,) = (tmp_path / "cache").iterdir()
    genuine = file.read_bytes()

    file.write_bytes(genuine[:-7])
    assert runner.filter_missing(wanted, plan.test) == wanted
    runner.train(wanted, plan.test)

    assert file.read_bytes() == genuine


@pytest.mark.parametrize("change", ["samples", "label", "recipe", "way"])
def test_the_name_of_an_outcome_changes_with_everything_that_it_depends_on(
    plan: StudyPlan, backbone: Backbone, change: str
) -> None:
    training = plan.prompt_training(plan.train)
    relabelled = replace(plan.train[0], label="another")
    other = {
        "samples": replace(training, samples=plan.train[1:]),
        "label": replace(training, samples=(relabelled, *plan.train[1:])),
        "recipe": replace(training, recipe=replace(plan.recipe, seed=1)),
        "way": replace(training, method="full"),
    }[change]

    assert other.key(backbone) != training.key(backbone)
    assert replace(training, samples=plan.train[::-1]).key(backbone) == training.key(backbone)


def test_opinions_of_prompts_one_by_one_are_those_of_the_set(plan: StudyPlan, runner: StudyRunner) -> None:
    wanted = [plan.prompt_training(shard) for shard in plan.shards(3)]
    runner.train(wanted, plan.test)

    runner.member_logits(wanted[:1], plan.test)  # kept, and then joined with the others
    said = runner.member_logits(wanted, plan.test)

    prompts = [runner.prompt(training) for training in wanted]
    together = classify(StructuredSet(runner.backbone, prompts), plan.test, runner.backbone.preprocessing)
    for one, other in zip(said.logits, together.logits, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert said.embedding is not None
    assert said.prototypes is not None
    torch.testing.assert_close(said.compose("average", "prototypes").scores.sum(1), torch.ones(len(plan.test)))


def test_a_model_without_a_prompt_is_kept_as_what_it_says(plan: StudyPlan, runner: StudyRunner) -> None:
    tuned = TrainingSpec("fine-tuning", plan.train, plan.recipe)

    runner.train([tuned], plan.test)

    assert runner.member_logits([tuned], plan.test).logits[0].shape == (len(plan.test), 3)
    assert runner.filter_missing([tuned], plan.test[:-1]) == [tuned]  # other pictures were never asked about
