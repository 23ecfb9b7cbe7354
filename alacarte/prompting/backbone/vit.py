"""The frozen backbone: a timm vision transformer, split into the steps that structured attention needs."""

import hashlib
import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from timm.layers.attention import Attention
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from alacarte.prompting.backbone.packed_blocks import FrozenBlock
from alacarte.prompting.backbone.preprocess import Preprocessing
from alacarte.prompting.backbone.weights import load_model, log_to_stderr
from alacarte.prompting.errors import BackboneUnsupported

# B images, N backbone tokens (class token included), D width, H heads, d width of a head, R rows


class BackboneBlock:
    """One block as differentiable functions of rows; attention between rows is left to the caller."""

    def __init__(self, block: Block) -> None:
        attention: Attention = block.attn
        self.heads: int = attention.num_heads
        self.head_width: int = attention.head_dim
        self.scale: float = attention.scale
        self._block = block
        self._qkv: nn.Linear = attention.qkv
        self._q_norm: nn.Module = attention.q_norm
        self._k_norm: nn.Module = attention.k_norm
        self._proj: nn.Linear = attention.proj
        self._inner = self._qkv.out_features // 3  # H * d

    def normalise(self, rows: Tensor) -> Tensor:
        """Return the rows (R, D) after the norm before attention."""
        return self._block.norm1(rows)  # type: ignore[no-any-return]  # timm is untyped

    def queries_keys_values(self, normal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project normalised rows (R, D) to queries, keys and values, each (R, H, d)."""
        qkv = self._qkv(normal).view(-1, 3, self.heads, self.head_width)  # (R, 3, H, d)
        q, k, v = qkv.unbind(1)
        return self._q_norm(q), self._k_norm(k), v

    def keys_values(self, normal: Tensor) -> tuple[Tensor, Tensor]:
        """Project normalised rows (R, D) to keys and values, each (R, H, d)."""
        bias = self._qkv.bias
        both = F.linear(normal, self._qkv.weight[self._inner :], None if bias is None else bias[self._inner :])
        k, v = both.view(-1, 2, self.heads, self.head_width).unbind(1)
        return self._k_norm(k), v

    def finish_block(self, rows: Tensor, attended: Tensor) -> Tensor:
        """Return the rows (R, D) after the residuals of attention, which gave `attended` (R, H * d), and the MLP."""
        rows = rows + self._block.ls1(self._proj(attended))
        return rows + self._block.ls2(self._block.mlp(self._block.norm2(rows)))  # type: ignore[no-any-return]


class Backbone:
    """A frozen vision transformer with its preprocessing and its identity."""

    def __init__(
        self,
        model: nn.Module,
        architecture: str,
        preprocessing: Preprocessing,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        transformer = check_architecture(model, architecture)
        self.architecture = architecture
        self.preprocessing = preprocessing
        self.identity = backbone_identity(transformer, architecture, preprocessing)
        self.device = torch.device(device)
        self.dtype = dtype
        self.model = transformer.requires_grad_(False).eval().to(self.device, dtype)
        self.blocks = tuple(BackboneBlock(block) for block in transformer.blocks)
        self.width: int = transformer.embed_dim
        self.depth = len(self.blocks)
        self.heads = self.blocks[0].heads
        self.head_width = self.blocks[0].head_width
        with torch.no_grad():
            side = preprocessing.size
            start = self.embed(torch.zeros(1, 3, side, side, device=self.device, dtype=dtype))
        self.tokens: int = start.shape[1]
        self.class_token = start[0, 0].float().cpu()  # (D), as it enters the first block

    @cached_property
    def frozen_blocks(self) -> tuple[FrozenBlock, ...]:
        """The blocks for passes without a gradient, packed on first use."""
        return tuple(FrozenBlock(block) for block in self.model.blocks)

    def embed(self, images: Tensor) -> Tensor:
        """Return the tokens Z_0 (B, N, D) of images (B, 3, S, S) that enter the first block."""
        model = self.model
        return model.norm_pre(model._pos_embed(model.patch_embed(images)))  # type: ignore[no-any-return]

    def final_norm(self, rows: Tensor) -> Tensor:
        """Return the rows (R, D) of the last block after the final norm, as a head reads them."""
        return self.model.fc_norm(self.model.norm(rows))  # type: ignore[no-any-return]


def build_backbone(
    name: str | None = None,
    weights: Path | Literal["random"] | None = None,
    size: int | None = None,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    log: Callable[[str], None] = log_to_stderr,
) -> Backbone:
    """Load the weights and build the frozen backbone; `log` gets one line that says where the weights come from."""
    loaded = load_model(name, weights, size, log)
    return Backbone(loaded.model, loaded.architecture, loaded.preprocessing, device, dtype)


def backbone_identity(model: nn.Module, architecture: str, preprocessing: Preprocessing) -> str:
    """Return the SHA-256 over the weights, the architecture and the preprocessing, which a prompt is bound to."""
    digest = hashlib.sha256()
    description = {"architecture": architecture, "preprocessing": preprocessing.describe()}
    digest.update(json.dumps(description, sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        if name.startswith(("head.", "head_dist.")):
            continue  # the classifier of the pretraining is never used
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().to("cpu", torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()


def check_architecture(model: nn.Module, architecture: str) -> VisionTransformer:
    """Return the model as a vision transformer; BackboneUnsupported if structured attention cannot run on it."""
    reason = _unsupported_reason(model)
    if reason is not None:
        raise BackboneUnsupported(
            f"{architecture} cannot be a backbone: {reason}; use a ViT, DeiT, DINO, DINOv2 or CLIP image tower of timm"
        )
    assert isinstance(model, VisionTransformer)
    return model


def _unsupported_reason(model: nn.Module) -> str | None:
    if not isinstance(model, VisionTransformer):
        return "it is not one of timm's plain vision transformers"
    if model.cls_token is None:
        return "it has no class token"
    if not isinstance(model.patch_drop, nn.Identity):
        return "it drops patches"
    if any(type(block) is not Block for block in model.blocks):
        return "its blocks are not plain pre-norm blocks"
    if any(type(block.attn) is not Attention for block in model.blocks):
        return "its attention does not have one fused matrix for queries, keys and values"
    for attention in (block.attn for block in model.blocks):
        if not isinstance(attention.norm, nn.Identity) or getattr(attention, "gate", None) is not None:
            return "its attention output is normalised or gated"
    return None
