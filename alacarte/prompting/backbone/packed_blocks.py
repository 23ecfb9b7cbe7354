"""The blocks of a frozen backbone as passes without a gradient compute them: on a CPU, with weights packed once.

oneDNN multiplies weights that lie as its kernels read them a tenth faster than others, and does what follows a product
(GELU, the residual) while its numbers are still in the cache. The price is a second copy of the weights.
"""

import platform
from collections.abc import Callable
from functools import cached_property, partial
from typing import Protocol

import torch
import torch.nn.functional as F
from timm.layers import LayerNorm, LayerScale, Mlp
from timm.models.vision_transformer import Block
from torch import Tensor, nn

# R rows, D width, H heads, d width of a head, I and O a product's own widths


Norm = Callable[[Tensor], Tensor]


class FrozenLinear(Protocol):
    """Rows (R, I) times a weight (O, I), and a bias: a constant of the backbone."""

    def __call__(self, rows: Tensor) -> Tensor:
        """The product (R, O)."""

    def gelu(self, rows: Tensor, approximate: str) -> Tensor:
        """GELU of the product."""

    def onto(self, start: Tensor, rows: Tensor) -> Tensor:
        """The product and start (R, O), whose memory may be used for it."""


class PlainLinear:
    """As torch computes it, on any device."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, rows: Tensor) -> Tensor:
        return F.linear(rows, self._weight, self._bias)

    def gelu(self, rows: Tensor, approximate: str) -> Tensor:
        hidden: Tensor = torch.ops.aten.gelu_(self(rows), approximate=approximate)
        return hidden

    def onto(self, start: Tensor, rows: Tensor) -> Tensor:
        return start.add_(self(rows))


class PackedLinear:
    """As oneDNN computes it, from its own copy of the weight."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        self._bias = None if bias is None else bias.contiguous()

    def __call__(self, rows: Tensor) -> Tensor:
        return self._apply(rows, "none", "")

    def gelu(self, rows: Tensor, approximate: str) -> Tensor:
        return self._apply(rows, "gelu", approximate)

    def onto(self, start: Tensor, rows: Tensor) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise.binary(rows, start, self._weight, self._bias, "add")
        return found

    def _apply(self, rows: Tensor, then: str, how: str) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._weight, self._bias, then, [], how)
        return found


class FrozenBlock:
    """One block as functions of rows, without a gradient: only attention between rows is left to the caller."""

    @torch.no_grad()
    def __init__(self, block: Block) -> None:
        attention = block.attn
        self.heads: int = attention.num_heads
        self.head_width: int = attention.head_dim
        self.scale: float = attention.scale
        self.normalise = freeze_norm(block.norm1)  # what attention reads of rows (R, D)
        self._fused: nn.Linear = attention.qkv
        self._is_packed = can_pack(self._fused.weight)
        linear = partial(freeze_linear, is_packed=self._is_packed)
        self._q_norm, self._k_norm = freeze_norm(attention.q_norm), freeze_norm(attention.k_norm)
        self._proj = linear(*scaled(attention.proj, block.ls1))
        self._norm2 = freeze_norm(block.norm2)
        self._mlp, self._mlp_scale = block.mlp, block.ls2
        self._is_plain_mlp = (
            type(block.mlp) is Mlp and type(block.mlp.act) is nn.GELU and type(block.mlp.norm) is nn.Identity
        )
        if self._is_plain_mlp:
            self._fc1 = linear(block.mlp.fc1.weight, block.mlp.fc1.bias)
            self._fc2 = linear(*scaled(block.mlp.fc2, block.ls2))
            self._approximate: str = block.mlp.act.approximate

    # Of the fused matrix those parts are packed that a block is asked for: the last block for others than the rest.
    @cached_property
    def _qkv(self) -> FrozenLinear:
        return self._part(0, 3)

    @cached_property
    def _q(self) -> FrozenLinear:
        return self._part(0, 1)

    @cached_property
    def _kv(self) -> FrozenLinear:
        return self._part(1, 3)

    def _part(self, start: int, stop: int) -> FrozenLinear:
        inner = self.heads * self.head_width
        rows = slice(start * inner, stop * inner)
        bias = self._fused.bias
        return freeze_linear(self._fused.weight[rows], None if bias is None else bias[rows], self._is_packed)

    def queries_keys_values(self, normal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised rows (R, D) as queries, keys and values, each (R, H, d)."""
        q, k, v = self._qkv(normal).view(-1, 3, self.heads, self.head_width).unbind(1)
        return self._q_norm(q), self._k_norm(k), v

    def queries(self, normal: Tensor) -> Tensor:
        """Normalised rows (R, D) as queries (R, H, d)."""
        return self._q_norm(self._q(normal).view(-1, self.heads, self.head_width))

    def keys_values(self, normal: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised rows (R, D) as keys and values, each (R, H, d)."""
        k, v = self._kv(normal).view(-1, 2, self.heads, self.head_width).unbind(1)
        return self._k_norm(k), v

    def absorb(self, rows: Tensor, mixed: Tensor) -> Tensor:
        """The rows (R, D) after attention, whose outcome is `mixed` (R, H * d), and after the MLP; uses up the rows."""
        rows = self._proj.onto(rows, mixed)
        normal = self._norm2(rows)
        if self._is_plain_mlp:
            return self._fc2.onto(rows, self._fc1.gelu(normal, self._approximate))
        return rows.add_(self._mlp_scale(self._mlp(normal)))


def freeze_linear(weight: Tensor, bias: Tensor | None, is_packed: bool) -> FrozenLinear:
    """The product with this weight as its device computes it fastest."""
    return PackedLinear(weight, bias) if is_packed else PlainLinear(weight, bias)


def freeze_norm(norm: nn.Module) -> Norm:
    """The norm without the steps that a module takes before it computes: a lone picture's pass has dozens of them."""
    if type(norm) in (nn.LayerNorm, LayerNorm):  # and no other kind of it, which may compute otherwise
        assert isinstance(norm, nn.LayerNorm)
        shape, weight, bias, eps = list(norm.normalized_shape), norm.weight, norm.bias, norm.eps
        return lambda rows: torch.layer_norm(rows, shape, weight, bias, eps)
    return _unchanged if isinstance(norm, nn.Identity) else norm


def _unchanged(rows: Tensor) -> Tensor:
    return rows


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN multiplies such weights here."""
    is_here = weight.device.type == "cpu" and platform.machine() in ("x86_64", "AMD64")
    if not is_here or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if weight.dtype is torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype is torch.float32


def scaled(linear: nn.Linear, scale: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of a linear layer and the layer scale that may follow it."""
    if not isinstance(scale, LayerScale):
        return linear.weight, linear.bias
    bias = None if linear.bias is None else linear.bias * scale.gamma
    return linear.weight * scale.gamma[:, None], bias
