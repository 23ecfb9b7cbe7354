"""Invalid input of the predictor is refused with its name before anything is computed."""

import dataclasses
from typing import Any, get_args

import pytest
import torch

from alacarte.api.literals import Weighting
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.errors import BackboneMismatch, CompositionInvalid, PromptingError
from alacarte.prompting.predict import Predictor
from alacarte.prompting.prompt.artifact import prompt_from_bytes, prompt_to_bytes
from alacarte.prompting.prompt.metadata import Variant
from alacarte.prompting.prompt.tensors import PromptTensors, TrainedPrompt
from tests.prompting.reference import small_backbone, small_images, small_prompt

WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)


@pytest.fixture(scope="module")
def predictor(backbone: Backbone) -> Predictor:
    return Predictor(backbone, {"deep": small_prompt(backbone)})


@pytest.mark.parametrize(
    ("sets", "how", "reason"),
    [
        ([("deep",), ()], ("average", "none"), "name at least one"),
        ([("deep",), ()], ("average", "prototypes"), "name at least one"),
        ([("deep",), ("deep", "stranger")], (), "'stranger'"),
        ([("deep",)], (), "2 images came with 1 sets"),
        ([("deep",), "deep"], (), "a list of names"),
        ([("deep",)] * 2, ("median",), "median"),
        ([("deep",)] * 2, ("average", "prototype"), "prototype"),
    ],
)
def test_invalid_sets_and_options_are_refused_with_the_reason(
    sets: list[Any], how: tuple[Any, ...], reason: str, backbone: Backbone, predictor: Predictor
) -> None:
    with pytest.raises(CompositionInvalid, match=reason):
        predictor.predict(small_images(backbone, 2), sets, *how)


def test_a_predictor_without_prompts_refuses_by_name(backbone: Backbone) -> None:
    with pytest.raises(CompositionInvalid, match="'deep'"):
        Predictor(backbone, {}).predict(small_images(backbone, 1), [("deep",)])


def test_images_of_another_size_are_refused(backbone: Backbone, predictor: Predictor) -> None:
    with pytest.raises(CompositionInvalid, match="images must have the shape"):
        predictor.predict(small_images(backbone, 1)[..., :-1], [("deep",)])


def test_no_images_give_no_predictions(backbone: Backbone, predictor: Predictor) -> None:
    assert predictor.predict(small_images(backbone, 0), []) == []


def test_weighted_votes_are_refused_before_anything_is_computed(
    backbone: Backbone, predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictor, "logits", None)

    with pytest.raises(CompositionInvalid, match="votes cannot be weighted"):
        predictor.predict(small_images(backbone, 1), [("deep",)], "vote", "prototypes")


def test_a_prompt_that_is_not_finite_is_refused(backbone: Backbone) -> None:
    """It would make the scores of every set that contains it NaN."""
    sound = small_prompt(backbone)
    steep = dataclasses.replace(sound.tensors, head_weight=torch.full_like(sound.tensors.head_weight, 3e38))

    with pytest.raises(PromptingError, match="prompt steep: head_weight holds a number beyond 1e"):
        Predictor(backbone, {"sound": sound, "steep": dataclasses.replace(sound, tensors=steep)})


def test_the_largest_allowed_numbers_give_finite_scores(backbone: Backbone) -> None:
    sound = small_prompt(backbone)
    numbers: dict[str, Any] = {  # Any: the fields' types differ
        name: torch.full_like(getattr(sound.tensors, name), 1e6)
        for name in ("token", "memory", "head_weight", "head_bias", "prototypes")
    }
    predictor = Predictor(backbone, {"large": dataclasses.replace(sound, tensors=PromptTensors("deep", **numbers))})

    (answer,) = predictor.predict(small_images(backbone, 1), [("large",)], "average", "prototypes")

    assert answer.scores.isfinite().all()


def test_a_prompt_of_another_backbone_is_refused_by_name(backbone: Backbone) -> None:
    stranger = small_prompt(small_backbone("plain", seed=1))

    with pytest.raises(BackboneMismatch, match="prompt theirs was trained on another backbone") as caught:
        Predictor(backbone, {"ours": small_prompt(backbone), "theirs": stranger})

    assert stranger.metadata.backbone[:12] in str(caught.value)
    assert backbone.identity[:12] in str(caught.value)


def misshapen(backbone: Backbone, variant: Variant, width: int, layers: int | None) -> TrainedPrompt:
    """A prompt that is valid in itself and names this backbone, as a remote site might send it."""
    tensors = PromptTensors(
        variant=variant,
        token=None if variant == "head-only" else torch.ones(width),
        memory=None if layers is None else torch.ones(layers, 5, width),
        head_weight=torch.ones(3, width),
        head_bias=torch.ones(3),
        prototypes=torch.ones(4, width),
    )
    prompt = dataclasses.replace(small_prompt(backbone), tensors=tensors)
    return prompt_from_bytes(prompt_to_bytes(prompt))


@pytest.mark.parametrize(
    ("variant", "width", "layers"),
    [
        pytest.param("deep", 48, 7, id="memory of a deeper backbone"),
        pytest.param("deep", 48, 1, id="deep memory of one block"),
        pytest.param("deep", 24, 3, id="deep prompt of another width"),
        pytest.param("shallow", 24, None, id="shallow prompt of another width"),
        pytest.param("shallow", 1, None, id="token that would broadcast"),
        pytest.param("head-only", 24, None, id="head of another width"),
    ],
)
def test_a_prompt_whose_shapes_do_not_fit_the_backbone_is_refused_by_name(
    variant: Variant, width: int, layers: int | None, backbone: Backbone
) -> None:
    assert (backbone.width, backbone.depth) == (48, 3)

    with pytest.raises(PromptingError, match="theirs"):
        Predictor(backbone, {"ours": small_prompt(backbone), "theirs": misshapen(backbone, variant, width, layers)})
