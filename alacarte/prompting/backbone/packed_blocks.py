"""The blocks of a frozen backbone for passes without a gradient; on a CPU, with weights packed once for oneDNN.

oneDNN multiplies weights in its own layout a tenth faster, and computes what follows a product (GELU, the residual)
while its numbers are still in the cache. The price is a second copy of the weights.
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
    """A linear layer with constant weight (O, I) and bias, for rows (R, I)."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the product (R, O)."""

    def gelu(self, rows: Tensor, approximate: str) -> Tensor:
        """Return GELU of the product."""

    def add_to(self, residual: Tensor, rows: Tensor) -> Tensor:
        """Return the product plus residual (R, O), whose memory may be overwritten."""


class PlainLinear:
    """Computed by torch, on any device."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, rows: Tensor) -> Tensor:
        return F.linear(rows, self._weight, self._bias)

    def gelu(self, rows: Tensor, approximate: str) -> Tensor:
        hidden: Tensor = torch.ops.aten.gelu_(self(rows), approximate=approximate)
        return hidden

    def add_to(self, residual: Tensor, rows: Tensor) -> Tensor:
        return residual.add_(self(rows))


class PackedLinear:
    """Computed by oneDNN, from its own copy of the weight."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        self._bias = None if bias is None else bias.contiguous()

    def __call__(self, rows: Tensor) -> Tensor:
        return self._apply(rows, "none", "")

    def gelu(self, rows: Tensor, approximate: str) -> Tensor:
        return self._apply(rows, "gelu", approximate)

    def add_to(self, residual: Tensor, rows: Tensor) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise.binary(rows, residual, self._weight, self._bias, "add")
        return found

    def _apply(self, rows: Tensor, activation: str, algorithm: str) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._weight, self._bias, activation, [], algorithm)
        return found


class FrozenBlock:
    """One block as functions of rows, without a gradient; attention between rows is left to the caller."""

    @torch.no_grad()
    def __init__(self, block: Block) -> None:
        attention = block.attn
        self.heads: int = attention.num_heads
        self.head_width: int = attention.head_dim
        self.scale: float = attention.scale
        self.normalise = freeze_norm(block.norm1)  # of rows (R, D), before attention
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

    # Only the parts of the fused matrix that are used are packed: the last block needs others than the rest.
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
        """Project normalised rows (R, D) to queries, keys and values, each (R, H, d)."""
        q, k, v = self._qkv(normal).view(-1, 3, self.heads, self.head_width).unbind(1)
        return self._q_norm(q), self._k_norm(k), v

    def queries(self, normal: Tensor) -> Tensor:
        """Project normalised rows (R, D) to queries (R, H, d)."""
        return self._q_norm(self._q(normal).view(-1, self.heads, self.head_width))

    def keys_values(self, normal: Tensor) -> tuple[Tensor, Tensor]:
        """Project normalised rows (R, D) to keys and values, each (R, H, d)."""
        k, v = self._kv(normal).view(-1, 2, self.heads, self.head_width).unbind(1)
        return self._k_norm(k), v

    def finish_block(self, rows: Tensor, attended: Tensor) -> Tensor:
        """Return the rows (R, D) after the residuals of attention, which gave `attended` (R, H * d), and the MLP.

        Overwrites the rows.
        """
        rows = self._proj.add_to(rows, attended)
        normal = self._norm2(rows)
        if self._is_plain_mlp:
            return self._fc2.add_to(rows, self._fc1.gelu(normal, self._approximate))
        return rows.add_(self._mlp_scale(self._mlp(normal)))


def freeze_linear(weight: Tensor, bias: Tensor | None, is_packed: bool) -> FrozenLinear:
    """Return the linear layer in its fastest form for the device."""
    return PackedLinear(weight, bias) if is_packed else PlainLinear(weight, bias)


def freeze_norm(norm: nn.Module) -> Norm:
    """Return the norm as a plain function: the overhead of a module counts in the pass of a single picture."""
    if type(norm) in (nn.LayerNorm, LayerNorm):  # not a subclass, which may compute something else
        assert isinstance(norm, nn.LayerNorm)
        shape, weight, bias, eps = list(norm.normalized_shape), norm.weight, norm.bias, norm.eps
        return lambda rows: torch.layer_norm(rows, shape, weight, bias, eps)
    return (lambda rows: rows) if isinstance(norm, nn.Identity) else norm


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN can multiply such weights on this machine."""
    is_x86_cpu = weight.device.type == "cpu" and platform.machine() in ("x86_64", "AMD64")
    if not is_x86_cpu or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if weight.dtype is torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype is torch.float32


def scaled(linear: nn.Linear, scale: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Return weight and bias of a linear layer with the layer scale that may follow it."""
    if not isinstance(scale, LayerScale):
        return linear.weight, linear.bias
    bias = None if linear.bias is None else linear.bias * scale.gamma
    return linear.weight * scale.gamma[:, None], bias
