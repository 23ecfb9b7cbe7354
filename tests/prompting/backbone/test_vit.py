"""Which models can be a backbone, and what a backbone's identity depends on."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
from timm.models.vision_transformer import ParallelScalingBlock, ParallelThingsBlock, ResPostBlock, VisionTransformer
from torch import nn

from alacarte.prompting.backbone.preprocess import Preprocessing
from alacarte.prompting.backbone.vit import Backbone, backbone_identity, build_backbone, check_architecture
from alacarte.prompting.errors import BackboneUnsupported
from tests.prompting.reference import KINDS, small_backbone, small_images, small_model

PREPROCESSING = Preprocessing(48, 1.0, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def tiny(**options: Any) -> VisionTransformer:
    shape = {"img_size": 32, "patch_size": 16, "embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 0}
    return VisionTransformer(**(shape | options))


def gated() -> VisionTransformer:
    model = tiny()
    model.blocks[1].attn.gate = nn.Linear(32, 32)
    return model


def one_odd_block() -> VisionTransformer:
    """A model with one block that is not a plain one."""
    model = tiny()
    model.blocks[1] = tiny(block_fn=ResPostBlock).blocks[1]
    return model


UNFIT: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "no class token": (lambda: tiny(class_token=False, global_pool="avg"), "no class token"),
    "map pooling": (lambda: tiny(class_token=False, global_pool="map"), "no class token"),
    "dropped patches": (lambda: tiny(patch_drop_rate=0.5), "drops patches"),
    "norm after": (lambda: tiny(block_fn=ResPostBlock), "plain pre-norm blocks"),
    "parallel scaling": (lambda: tiny(block_fn=ParallelScalingBlock), "plain pre-norm blocks"),
    "parallel things": (lambda: tiny(block_fn=ParallelThingsBlock), "plain pre-norm blocks"),
    "one strange block": (one_odd_block, "plain pre-norm blocks"),
    "two attentions": (lambda: tiny(attn_layer="diff"), "one fused matrix"),
    "normalised attention": (lambda: tiny(scale_attn_norm=True), "normalised or gated"),
    "gated attention": (gated, "normalised or gated"),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3)), "not one of timm's plain vision transformers"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_an_unsupported_model_is_refused_with_its_name_and_the_reason(case: str) -> None:
    make, reason = UNFIT[case]

    with pytest.raises(BackboneUnsupported) as caught:
        Backbone(make(), "some_model", PREPROCESSING)

    assert "some_model" in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("resnet18", {}),
        ("eva02_tiny_patch14_224", {"depth": 1}),
        ("vit_small_patch16_rope_224", {"depth": 1}),
        ("beit_base_patch16_224", {"depth": 1}),
        ("vit_base_patch16_siglip_224", {"depth": 1}),
        ("vit_relpos_small_patch16_224", {"depth": 1}),
        ("vit_srelpos_small_patch16_224", {"depth": 1}),
        ("beit3_base_patch16_224", {"depth": 1}),
        ("swin_tiny_patch4_window7_224", {}),
    ],
)
def test_timms_other_families_are_refused_by_name(name: str, options: dict[str, Any]) -> None:
    model = timm.create_model(name, **options)

    with pytest.raises(BackboneUnsupported, match=rf"{name} cannot be a backbone: "):
        check_architecture(model, name)


@pytest.mark.parametrize("name", ["resnet18", "vit_base_patch16_siglip_224"])
def test_building_an_unsupported_model_names_it(name: str) -> None:
    with pytest.raises(BackboneUnsupported, match=f"{name} .*class token"):
        build_backbone(name, "random", log=lambda _: None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_supported_model_becomes_a_frozen_backbone_with_its_sizes(
    kind: str, backbone_of: Callable[[str], Backbone]
) -> None:
    backbone = backbone_of(kind)

    start = backbone.embed(small_images(backbone, 2))

    assert start.shape == (2, backbone.tokens, backbone.width)
    assert backbone.heads * backbone.head_width == backbone.width
    assert len(backbone.blocks) == backbone.depth == len(backbone.model.blocks)
    assert not backbone.model.training
    assert not any(parameter.requires_grad for parameter in backbone.model.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_the_class_token_is_the_one_that_enters_the_first_block(
    kind: str, backbone_of: Callable[[str], Backbone]
) -> None:
    backbone = backbone_of(kind)

    start = backbone.embed(small_images(backbone, 2))

    torch.testing.assert_close(start[:, 0], backbone.class_token.expand(2, -1), rtol=1e-5, atol=1e-5)


def test_the_identity_is_the_same_for_the_same_model() -> None:
    assert small_backbone("plain").identity == small_backbone("plain").identity
    assert small_backbone("plain").identity != small_backbone("plain", seed=1).identity


@pytest.mark.parametrize("kind", ["plain", "layer scale", "registers", "pre-norm", "distilled"])
def test_the_identity_changes_with_every_weight(kind: str) -> None:
    architecture, model = small_model(kind)
    identities = {backbone_identity(model, architecture, PREPROCESSING)}
    names = [name for name, _ in model.named_parameters()]

    for parameter in model.parameters():
        last = parameter.data.view(-1)[-1:]
        last.copy_(torch.nextafter(last, torch.tensor(torch.inf)))  # one bit of one number
        identities.add(backbone_identity(model, architecture, PREPROCESSING))

    assert len(identities) == len(names) + 1


def test_the_identity_changes_when_two_weights_of_one_shape_swap_places() -> None:
    architecture, model = small_model("plain")
    before = backbone_identity(model, architecture, PREPROCESSING)
    state = dict(model.state_dict())
    state["blocks.0.norm1.weight"], state["blocks.0.norm2.weight"] = (
        state["blocks.0.norm2.weight"].clone(),
        state["blocks.0.norm1.weight"].clone(),
    )
    model.load_state_dict(state)

    assert backbone_identity(model, architecture, PREPROCESSING) != before


@pytest.mark.parametrize(
    "change",
    [
        {"size": 64},
        {"crop_pct": 0.9},
        {"mean": (0.5, 0.5, 0.4)},
        {"std": (0.5, 0.5, 0.4)},
        {"interpolation": "bilinear"},
        {"crop_mode": "squash"},
        {"architecture": "other"},
    ],
)
def test_the_identity_changes_with_the_preprocessing_and_the_architectures_name(change: dict[str, Any]) -> None:
    architecture, model = small_model("plain")
    other = change.pop("architecture", architecture)

    changed = backbone_identity(model, other, dataclasses.replace(PREPROCESSING, **change))

    assert changed != backbone_identity(model, architecture, PREPROCESSING)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_identity_does_not_change_with_the_precision(dtype: torch.dtype) -> None:
    assert small_backbone("plain", dtype=dtype).identity == small_backbone("plain").identity


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no second device here")
def test_the_identity_does_not_change_with_the_device() -> None:
    architecture, model = small_model("plain")
    before = backbone_identity(model, architecture, PREPROCESSING)

    assert backbone_identity(model.to("cuda"), architecture, PREPROCESSING) == before


@pytest.mark.parametrize("kind", ["plain", "distilled"])
def test_the_identity_does_not_depend_on_the_classifier(kind: str) -> None:
    architecture, model = small_model(kind)
    assert isinstance(model, VisionTransformer)
    bare = backbone_identity(model, architecture, PREPROCESSING)

    model.reset_classifier(10)

    assert any(name.startswith("head") for name in model.state_dict())
    assert backbone_identity(model, architecture, PREPROCESSING) == bare
