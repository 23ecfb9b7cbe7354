"""The logits of a batch: one forward pass, then the head of each prompt of each image's set."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from alacarte.prompting.attention.batch_layout import build_layout, to_device
from alacarte.prompting.attention.forward import forward
from alacarte.prompting.attention.prompt_slots import PromptPool
from alacarte.prompting.backbone.vit import Backbone

# B images, T pairs, D width, C labels, n rows of a prompt

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class PromptSlot:
    """A prompt on the device: its slot in the pool and its head."""

    slot: int | None  # none for head-only, which takes no part in attention
    head_weight: Tensor  # (C, D)
    head_bias: Tensor  # (C)


@torch.inference_mode()
def batch_logits(
    backbone: Backbone,
    images: Tensor,
    pool: PromptPool,
    sets: Sequence[Sequence[Name]],
    prompts: Mapping[Name, PromptSlot],
) -> tuple[list[dict[Name, Tensor]], Tensor]:
    """Return for each of images (B, 3, S, S) the logits (C) of each prompt of its set, and the embeddings (B, D).

    Both are on the CPU. No set may name a prompt twice.
    """
    slots = [[prompts[name].slot for name in names] for names in sets]
    layout = build_layout([[slot for slot in own if slot is not None] for own in slots], backbone.device)
    result = forward(backbone, images.to(backbone.device, backbone.dtype, non_blocking=True), pool, layout)
    rows = torch.cat([result.tokens, result.embedding]).float()  # (T + B, D)

    # A prompt's head reads all its rows at once; a head-only prompt reads the class tokens.
    rows_of: dict[Name, list[tuple[int, int]]] = {}  # prompt -> (image, row)
    pair = 0
    for image, names in enumerate(sets):
        for name, slot in zip(names, slots[image], strict=True):
            row = layout.pair_count + image
            if slot is not None:
                row, pair = pair, pair + 1
            rows_of.setdefault(name, []).append((image, row))
    order = to_device([row for own in rows_of.values() for _, row in own], backbone.device)
    parts = torch.split_with_sizes(rows.index_select(0, order), [len(own) for own in rows_of.values()])
    logits = [
        F.linear(part, prompts[name].head_weight, prompts[name].head_bias)  # (n, C)
        for name, part in zip(rows_of, parts, strict=True)
    ]

    # One copy to the host, so that there is one wait for the device.
    numbers = [*(part.flatten() for part in logits), rows[layout.pair_count :].flatten()]
    *flat, embedding = torch.split_with_sizes(torch.cat(numbers).cpu(), [part.numel() for part in numbers])
    per_image: list[dict[Name, Tensor]] = [{} for _ in sets]
    for (name, own), part in zip(rows_of.items(), flat, strict=True):
        for (image, _), row_logits in zip(own, part.view(len(own), -1), strict=True):
            per_image[image][name] = row_logits
    return per_image, embedding.view(len(sets), -1)
