"""Frozen blocks, packed or not, equal the differentiable blocks."""

from collections.abc import Callable

import pytest
import torch
from timm.layers import LayerScale
from torch import nn

from alacarte.prompting.backbone.packed_blocks import FrozenBlock, PackedLinear, PlainLinear, can_pack, scaled
from alacarte.prompting.backbone.vit import Backbone
from tests.prompting.reference import KINDS

needs_onednn = pytest.mark.skipif(not can_pack(torch.empty(1, 1)), reason="oneDNN packs no weights on this machine")


@needs_onednn
@pytest.mark.parametrize("rows", [1, 7, 200])
@pytest.mark.parametrize("has_bias", [True, False])
@torch.inference_mode()
def test_a_packed_product_equals_a_plain_one(rows: int, has_bias: bool) -> None:
    torch.manual_seed(rows)
    weight, bias = torch.randn(24, 40), torch.randn(24) if has_bias else None
    given, start = torch.randn(rows, 40), torch.randn(rows, 24)
    packed, plain = PackedLinear(weight, bias), PlainLinear(weight, bias)

    torch.testing.assert_close(packed(given), plain(given), rtol=1e-5, atol=1e-5)
    for approximate in ("none", "tanh"):
        torch.testing.assert_close(
            packed.gelu(given, approximate), plain.gelu(given, approximate), rtol=1e-5, atol=1e-5
        )
    torch.testing.assert_close(packed.add_to(start.clone(), given), plain.add_to(start, given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_packed", [pytest.param(True, marks=needs_onednn), False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_block_equals_the_differentiable_block(
    kind: str, is_packed: bool, backbone_of: Callable[[str], Backbone], monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = backbone_of(kind)
    monkeypatch.setattr("alacarte.prompting.backbone.packed_blocks.can_pack", lambda _: is_packed)
    torch.manual_seed(0)
    rows = torch.randn(11, backbone.width)

    with torch.inference_mode():
        for raw, trained in zip(backbone.model.blocks, backbone.blocks, strict=True):
            frozen = FrozenBlock(raw)
            normal = frozen.normalise(rows)
            expected = trained.queries_keys_values(normal)
            q, k, v = frozen.queries_keys_values(normal)
            mixed = v.flatten(1)

            torch.testing.assert_close((q, k, v), expected, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close((frozen.queries(normal), *frozen.keys_values(normal)), expected)
            after = frozen.finish_block(rows.clone(), mixed)
            torch.testing.assert_close(after, trained.finish_block(rows, mixed), rtol=1e-5, atol=1e-5)


def test_a_layer_scale_is_part_of_the_weight_before_it() -> None:
    linear, scale = nn.Linear(6, 4), LayerScale(4, init_values=0.5)
    rows = torch.randn(3, 6)

    torch.testing.assert_close(nn.functional.linear(rows, *scaled(linear, scale)), scale(linear(rows)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_double_precision_is_not_packed(dtype: torch.dtype) -> None:
    assert not can_pack(torch.empty(1, 1, dtype=dtype))
