"""The prediction of an image depends on its own set of prompts only."""

import dataclasses
from typing import get_args

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from alacarte.api.literals import Composition, Weighting
from alacarte.prompting.attention.batch_layout import build_layout
from alacarte.prompting.attention.forward import forward
from alacarte.prompting.attention.train_forward import empty_pool
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.predict import ImagePrediction, Predictor, set_digest
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes
from alacarte.prompting.prompt.tensors import TrainedPrompt
from tests.prompting.reference import plain_forward, small_backbone, small_images, small_prompt, token_and_memory

COMPOSITIONS: tuple[Composition, ...] = get_args(Composition)
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)
WAYS = [(c, w) for c in COMPOSITIONS for w in WEIGHTINGS if (c, w) != ("vote", "prototypes")]


@pytest.fixture(scope="module")
def prompts(backbone: Backbone) -> dict[str, TrainedPrompt]:
    """Prompts of every variant, whose labels overlap in part."""
    return {
        "deep": small_prompt(backbone, "deep", seed=1),
        "head": small_prompt(backbone, "head-only", seed=2, labels=("dog", "emu")),
        "shallow": small_prompt(backbone, "shallow", seed=3, labels=("ant", "cat")),
        "shared": small_prompt(backbone, "deep-shared", seed=4, memory=2),
        "second head": small_prompt(backbone, "head-only", seed=5),
    }


@pytest.fixture(scope="module")
def predictor(backbone: Backbone, prompts: dict[str, TrainedPrompt]) -> Predictor:
    return Predictor(backbone, prompts)


def same(actual: ImagePrediction, expected: ImagePrediction) -> None:
    """Equal but for the last digits, which may also swap labels with equal scores."""
    assert dict.fromkeys(sorted(actual.labels)) == dict.fromkeys(sorted(expected.labels))
    theirs = dict(zip(expected.labels, expected.scores.tolist(), strict=True))
    ours = dict(zip(actual.labels, actual.scores.tolist(), strict=True))
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert {m.name: m.labels for m in actual.members} == {m.name: m.labels for m in expected.members}
    for one in actual.members:
        (other,) = (member for member in expected.members if member.name == one.name)
        assert one.weight == pytest.approx(other.weight, abs=1e-5)
        torch.testing.assert_close(one.scores, other.scores, rtol=1e-5, atol=1e-5)
    assert actual.set_digest == expected.set_digest


def test_logits_equal_the_heads_on_the_reference_forward_for_mixed_variants(
    backbone: Backbone, prompts: dict[str, TrainedPrompt], predictor: Predictor
) -> None:
    images = small_images(backbone, 2)
    sets = [("head", "deep", "second head", "shared"), ("shallow", "head", "deep")]

    logits, embedding = predictor.logits(images, sets)

    for image, names, rows, features in zip(images, sets, logits, embedding, strict=True):
        assert rows.keys() == set(names)
        for name in names:
            row = expected_row(backbone, image, prompts[name])
            tensors = prompts[name].tensors
            torch.testing.assert_close(rows[name], tensors.head_weight @ row + tensors.head_bias, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(features, plain_forward(backbone, image, [], []).embedding, rtol=1e-5, atol=1e-5)


def expected_row(backbone: Backbone, image: Tensor, prompt: TrainedPrompt) -> Tensor:
    if prompt.tensors.token is None:
        return plain_forward(backbone, image, [], []).embedding
    token, memory = token_and_memory(backbone, prompt)
    return plain_forward(backbone, image, [token], [memory]).tokens[0]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), way=st.sampled_from(WAYS), chosen=st.lists(st.integers(0, 2), min_size=1, max_size=4))
def test_a_batch_predicts_each_image_as_a_batch_of_one_with_a_pool_of_its_set(
    data: st.DataObject,
    way: tuple[Composition, Weighting],
    chosen: list[int],
    backbone: Backbone,
    prompts: dict[str, TrainedPrompt],
    predictor: Predictor,
) -> None:
    names = st.lists(st.sampled_from(sorted(prompts)), min_size=1, max_size=5, unique=True)
    sets = data.draw(st.lists(names, min_size=len(chosen), max_size=len(chosen)))
    images = small_images(backbone, 3)[chosen]

    answers = predictor.predict(images, sets, *way)

    for image, own, answer in zip(images, sets, answers, strict=True):
        alone = Predictor(backbone, {name: prompts[name] for name in reversed(own)})
        same(answer, alone.predict(image[None], [own[::-1]], *way)[0])


@pytest.mark.parametrize(("composition", "weighting"), WAYS)
def test_the_weights_of_the_members_and_the_scores_sum_to_one(
    composition: Composition, weighting: Weighting, backbone: Backbone, predictor: Predictor
) -> None:
    sets = [("deep", "head", "shared"), ("shallow",), ("head", "second head")]

    answers = predictor.predict(small_images(backbone, 3), sets, composition, weighting)

    for names, answer in zip(sets, answers, strict=True):
        assert [member.name for member in answer.members] == list(names)
        assert sum(member.weight for member in answer.members) == pytest.approx(1)
        assert float(answer.scores.sum()) == pytest.approx(1, abs=1e-5)
        assert answer.scores.tolist() == sorted(answer.scores.tolist(), reverse=True)
        for member in answer.members:
            assert float(member.scores.sum()) == pytest.approx(1, abs=1e-5)
            assert len(member.scores) == len(member.labels)


def test_the_prompt_with_the_nearest_prototype_has_the_largest_weight(
    backbone: Backbone, prompts: dict[str, TrainedPrompt], predictor: Predictor
) -> None:
    images = small_images(backbone, 1)
    features = forward(backbone, images, empty_pool(backbone), build_layout([()], backbone.device)).embedding
    near = dataclasses.replace(prompts["deep"].tensors, prototypes=features.clone())
    own = prompts | {"deep": dataclasses.replace(prompts["deep"], tensors=near)}

    (answer,) = Predictor(backbone, own).predict(images, [("head", "deep")], "average", "prototypes")

    weight = {member.name: member.weight for member in answer.members}
    assert weight["deep"] > 0.5 > weight["head"]


def test_the_average_is_the_mean_of_the_members_scores(backbone: Backbone, predictor: Predictor) -> None:
    (answer,) = predictor.predict(small_images(backbone, 1), [("deep", "shallow")])

    member_scores = [dict(zip(m.labels, m.scores.tolist(), strict=True)) for m in answer.members]
    expected = {label: sum(one.get(label, 0) for one in member_scores) / 2 for label in answer.labels}
    assert dict(zip(answer.labels, answer.scores.tolist(), strict=True)) == pytest.approx(expected, abs=1e-5)


def test_a_prompt_named_twice_counts_once(backbone: Backbone, predictor: Predictor) -> None:
    images = small_images(backbone, 2)

    twice = predictor.predict(images, [("deep", "head", "deep", "deep"), ("head", "head")])

    for answer, once in zip(twice, predictor.predict(images, [("deep", "head"), ("head",)]), strict=True):
        same(answer, once)
        assert len(answer.members) == len(once.members)


def test_the_digest_of_a_set_depends_on_its_members_alone(
    backbone: Backbone, prompts: dict[str, TrainedPrompt], predictor: Predictor
) -> None:
    images = small_images(backbone, 4)
    sets = [("deep", "head"), ("head", "deep"), ("deep",), ("head", "shared")]

    first, second, smaller, other = (answer.set_digest for answer in predictor.predict(images, sets))

    digests = [prompt_digest(prompt_to_bytes(prompts[name])) for name in ("head", "deep")]
    assert first == second == set_digest(digests)
    assert len({first, smaller, other}) == 3


def test_a_pool_of_head_only_prompts_predicts(backbone: Backbone, prompts: dict[str, TrainedPrompt]) -> None:
    heads = {"head": prompts["head"], "second head": prompts["second head"]}
    images = small_images(backbone, 2)

    answers = Predictor(backbone, heads).predict(images, [("head",), ("second head", "head")])

    for answer, expected in zip(
        answers, Predictor(backbone, prompts).predict(images, [("head",), ("second head", "head")]), strict=True
    ):
        same(answer, expected)


def test_a_half_precision_backbone_changes_the_scores_little(prompts: dict[str, TrainedPrompt]) -> None:
    exact, halved = small_backbone("plain"), small_backbone("plain", dtype=torch.bfloat16)
    images = small_images(exact, 1)

    (near,) = Predictor(halved, prompts).predict(images, [("deep", "head", "shallow")])

    (answer,) = Predictor(exact, prompts).predict(images, [("deep", "head", "shallow")])
    expected = dict(zip(answer.labels, answer.scores.tolist(), strict=True))
    assert near.scores.dtype == torch.float32
    assert dict(zip(near.labels, near.scores.tolist(), strict=True)) == pytest.approx(expected, abs=0.1)
