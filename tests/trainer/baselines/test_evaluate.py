"""Logits are computed once and composed in several ways; accuracy by its definition."""

import pytest
import torch

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.compose import ComposedScores
from alacarte.prompting.errors import CompositionInvalid
from tests.prompting.reference import LABELS, small_prompt
from tests.trainer.pictures import Samples
from trainer.baselines.evaluate import accuracy, classify, concat_members
from trainer.baselines.prompt_sets import JointSet, StructuredSet
from trainer.errors import MeasurementInvalid


@pytest.mark.parametrize(("truths", "share"), [("abba", 0.75), ("acbc", 0.5)], ids=["known", "outside the union"])
def test_accuracy_is_the_share_of_pictures_whose_best_label_is_true(truths: str, share: float) -> None:
    answer = ComposedScores(("a", "b"), torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]))

    assert accuracy(answer, list(truths)) == share


@pytest.mark.parametrize("truths", [[], ["a"], ["a", "b", "a"]])
def test_as_many_true_labels_as_scores_are_required(truths: list[str]) -> None:
    answer = ComposedScores(("a", "b"), torch.tensor([[0.9, 0.1], [0.1, 0.9]]))

    with pytest.raises(MeasurementInvalid, match="give one for each"):
        accuracy(answer, truths)


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_not_finite_is_refused(score: float) -> None:
    answer = ComposedScores(("a", "b"), torch.tensor([[0.9, score]]))

    with pytest.raises(MeasurementInvalid, match="not a finite number"):
        accuracy(answer, ["a"])


def test_no_pictures_are_refused(backbone: Backbone) -> None:
    with pytest.raises(MeasurementInvalid, match="no pictures"):
        classify(StructuredSet(backbone, [small_prompt(backbone, seed=1)]), [], backbone.preprocessing)


def test_the_batch_size_changes_no_logits(backbone: Backbone, samples: Samples) -> None:
    prompts = [small_prompt(backbone, seed=1), small_prompt(backbone, seed=2, labels=("red", "white"))]
    both = StructuredSet(backbone, prompts)

    alone = classify(both, samples, backbone.preprocessing, batch=1)
    together = classify(both, samples, backbone.preprocessing, batch=len(samples))

    assert alone.labels == together.labels == (LABELS, ("red", "white"))
    for one, other in zip(alone.logits, together.logits, strict=True):
        assert one.shape[0] == len(samples)
        torch.testing.assert_close(one, other)
    assert alone.embedding is not None
    torch.testing.assert_close(alone.embedding, together.embedding)


def test_selected_members_equal_the_smaller_set(backbone: Backbone, samples: Samples) -> None:
    prompts = [small_prompt(backbone, seed=seed) for seed in range(3)]

    of_all = classify(StructuredSet(backbone, prompts), samples, backbone.preprocessing)
    of_two = classify(StructuredSet(backbone, [prompts[2], prompts[0]]), samples, backbone.preprocessing)

    left = of_all.select_members([2, 0]).compose("average", "prototypes")
    torch.testing.assert_close(left.scores, of_two.compose("average", "prototypes").scores)


def test_single_members_are_concatenated_to_an_ensemble(backbone: Backbone, samples: Samples) -> None:
    prompts = [small_prompt(backbone, seed=1), small_prompt(backbone, seed=2, labels=("red", "white"))]

    apart = [classify(StructuredSet(backbone, [prompt]), samples, backbone.preprocessing) for prompt in prompts]
    at_once = classify(StructuredSet(backbone, prompts), samples, backbone.preprocessing)

    joined = concat_members(apart).compose("vote")
    assert joined.labels == (*LABELS, "red", "white")
    torch.testing.assert_close(joined.scores, at_once.compose("vote").scores)


def test_members_without_prototypes_cannot_be_weighted(backbone: Backbone, samples: Samples) -> None:
    logits = classify(JointSet(backbone, [small_prompt(backbone, seed=1)]), samples[:2], backbone.preprocessing)

    with pytest.raises(CompositionInvalid, match="no prototypes"):
        logits.compose("average", "prototypes")
