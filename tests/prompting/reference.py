"""An independent reference of structured attention, and small backbones and prompts to compare with it.

Written from the paper and timm's weights alone, one image and one head at a time, so that it shares no mistake with the
product: all N + P + sum(M) tokens in one sequence, minus infinity where the paper's attention table forbids attention.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import timm
import torch
from torch import Tensor, nn

from alacarte.prompting.backbone.preprocess import Preprocessing
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.metadata import PromptMetadata, Variant
from alacarte.prompting.prompt.tensors import PromptTensors, TrainedPrompt

# N backbone tokens, P prompts, M memory tokens a block, L blocks, D width, d width of a head

SMALL: dict[str, Any] = {"depth": 3, "embed_dim": 48, "num_heads": 3, "num_classes": 0}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("vit_tiny_patch16_224", {"img_size": 48}),
    "one block": ("vit_tiny_patch16_224", {"img_size": 32, "depth": 1}),
    "layer scale": ("vit_small_patch14_dinov2", {"img_size": 42}),
    "registers": ("vit_small_patch14_reg4_dinov2", {"img_size": 42, "depth": 2}),
    "pre-norm": ("vit_base_patch32_clip_224", {"img_size": 96}),
    "quick gelu": ("vit_base_patch32_clip_quickgelu_224", {"img_size": 96, "depth": 2}),
    "qk-norm": ("vit_tiny_patch16_224", {"img_size": 48, "qk_norm": True, "qkv_bias": False}),
    "gated mlp": ("vit_giant_patch14_dinov2", {"img_size": 42, "depth": 2}),
    "class token without position": ("deit3_small_patch16_224", {"img_size": 48, "depth": 2}),
    "distilled": ("deit_tiny_distilled_patch16_224", {"img_size": 48, "depth": 2}),
    "norm after pooling": ("vit_tiny_patch16_224", {"img_size": 48, "depth": 2, "global_pool": "avg"}),
    "wide": ("vit_tiny_patch16_224", {"img_size": 64, "embed_dim": 192, "depth": 2}),
    "dropout": ("vit_tiny_patch16_224", {"img_size": 48, "proj_drop_rate": 0.5, "drop_path_rate": 0.5}),
}
LABELS = ("cat", "dog", "owl")


def small_model(kind: str, seed: int = 0) -> tuple[str, nn.Module]:
    """Return the architecture's name and a small random model of it in which every weight has an effect."""
    architecture, options = KINDS[kind]
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = timm.create_model(architecture, **(SMALL | options))
        with torch.no_grad():
            for parameter in model.parameters():
                # Fresh weights hide mistakes: biases are zero, norms and layer scale do nothing.
                parameter.add_(torch.randn_like(parameter), alpha=0.3 if parameter.ndim == 1 else 0.1)
    return architecture, model


def small_backbone(kind: str = "plain", seed: int = 0, dtype: torch.dtype = torch.float32) -> Backbone:
    """A small frozen backbone, the same one for the same kind and seed."""
    architecture, model = small_model(kind, seed)
    size = KINDS[kind][1]["img_size"]
    half = (0.5, 0.5, 0.5)
    return Backbone(model, architecture, Preprocessing(size, 1.0, half, half), dtype=dtype)


def small_images(backbone: Backbone, count: int, seed: int = 0) -> Tensor:
    """Random images (count, 3, S, S)."""
    side = backbone.preprocessing.size
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(count, 3, side, side, generator=generator).to(backbone.dtype)


def small_prompt(
    backbone: Backbone, variant: Variant = "deep", seed: int = 0, memory: int = 5, labels: tuple[str, ...] = LABELS
) -> TrainedPrompt:
    """Return a random prompt for the backbone, with numbers large enough to have an effect."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    width = backbone.width
    layers = {"deep": backbone.depth, "deep-shared": 1}.get(variant)
    tensors = PromptTensors(
        variant=variant,
        token=None if variant == "head-only" else draw(width),
        memory=None if layers is None else draw(layers, memory, width),
        head_weight=draw(len(labels), width) / width**0.5,
        head_bias=draw(len(labels)),
        prototypes=draw(4, width),
    )
    metadata = PromptMetadata(
        backbone=backbone.identity,
        architecture=backbone.architecture,
        size=backbone.preprocessing.size,
        labels=labels,
        samples=9,
        seed=seed,
        settings={},
    )
    return TrainedPrompt(tensors, metadata)


def token_and_memory(backbone: Backbone, prompt: TrainedPrompt) -> tuple[Tensor, Tensor]:
    """The prompt's token (D) and its memory in every block (L, M, D), M = 0 where it has none."""
    token, memory = prompt.tensors.token, prompt.tensors.memory
    assert token is not None
    if memory is None:
        memory = torch.zeros(1, 0, backbone.width)
    return token.to(backbone.dtype), memory.to(backbone.dtype).expand(backbone.depth, -1, -1)


@dataclass(frozen=True)
class ReferenceResult:
    """The result of the reference forward for one image."""

    tokens: Tensor  # (P, D)
    embedding: Tensor  # (D)


def plain_forward(
    backbone: Backbone, image: Tensor, tokens: Sequence[Tensor], memories: Sequence[Tensor]
) -> ReferenceResult:
    """One image (3, S, S) with P prompts: tokens (D) and memories (L, M, D), with any M; differentiable."""
    model = backbone.model
    rows = torch.cat([tokens_before_first_block(model, image), *(token[None] for token in tokens)])  # (N + P, D)
    n = len(rows) - len(tokens)
    allowed = attention_table(n, [memory.shape[1] for memory in memories])
    for index, block in enumerate(model.blocks):
        rows = plain_block(block, rows, [memory[index] for memory in memories], allowed)
    rows = model.fc_norm(model.norm(rows))
    return ReferenceResult(tokens=rows[n:], embedding=rows[0])


def tokens_before_first_block(model: nn.Module, image: Tensor) -> Tensor:
    """The tokens (N, D) that timm's own forward pass gives to the first block."""
    caught: list[Tensor] = []
    blocks: Any = model.blocks
    hook = blocks[0].register_forward_pre_hook(lambda _, given: caught.append(given[0][0]))
    try:
        model(image[None])
    finally:
        hook.remove()
    return caught[0]


def attention_table(n: int, memories: Sequence[int]) -> Tensor:
    """Which row may attend which column; rows [N backbone, P prompts], columns [rows, memory 1, memory 2 ...]."""
    prompts = len(memories)
    owners = [None] * n + list(range(prompts)) + [p for p, count in enumerate(memories) for _ in range(count)]
    table = torch.zeros(n + prompts, len(owners), dtype=torch.bool)
    for row in range(n + prompts):
        for column, owner in enumerate(owners):
            table[row, column] = owner is None or owner == owners[row]
    return table


def plain_block(block: Any, rows: Tensor, memory: Sequence[Tensor], allowed: Tensor) -> Tensor:
    """Rows (N + P, D) after a timm block, in which memory is attended and attends nothing."""
    attention = block.attn
    width = attention.qkv.out_features // 3
    d = width // attention.num_heads
    normal = block.norm1(torch.cat([rows, *memory]))  # (N + P + sum(M), D)
    projected = normal @ attention.qkv.weight.T
    if attention.qkv.bias is not None:
        projected = projected + attention.qkv.bias
    heads = []
    for head in range(attention.num_heads):
        start = head * d
        q = attention.q_norm(projected[: len(rows), start : start + d])
        k = attention.k_norm(projected[:, width + start : width + start + d])
        v = projected[:, 2 * width + start : 2 * width + start + d]
        scores = (q @ k.T / math.sqrt(d)).masked_fill(~allowed, -math.inf)
        powers = torch.exp(scores - scores.max(dim=1, keepdim=True).values)
        heads.append(powers / powers.sum(dim=1, keepdim=True) @ v)
    attended = torch.cat(heads, dim=1) @ attention.proj.weight.T + attention.proj.bias
    rows = rows + attended * getattr(block.ls1, "gamma", 1)
    mlp: Tensor = block.mlp(block.norm2(rows)) * getattr(block.ls2, "gamma", 1)
    return rows + mlp


def softmax(*logits: float) -> list[float]:
    powers = [math.exp(logit) for logit in logits]
    return [power / sum(powers) for power in powers]
