"""One pass of a batch: for every image the logits of each prompt of its own set."""

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

# B images, T pairs, D width, C labels

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class PromptSlot:
    """Where a pass finds a prompt: its slot in the pool, if it attends, and its head on the device."""

    slot: int | None  # none for head-only
    head_weight: Tensor  # (C, D)
    head_bias: Tensor  # (C)


@torch.inference_mode()
def batch_logits(
    backbone: Backbone,
    images: Tensor,
    pool: PromptPool,
    sets: Sequence[Sequence[Name]],
    seats: Mapping[Name, PromptSlot],
) -> tuple[list[dict[Name, Tensor]], Tensor]:
    """For each of images (B, 3, S, S) the logits (C) of each prompt of its set, and the embeddings (B, D), on the CPU.

    No set may name a prompt twice.
    """
    slots = [[seats[name].slot for name in names] for names in sets]
    layout = build_layout([[slot for slot in own if slot is not None] for own in slots], backbone.device)
    outcome = forward(backbone, images.to(backbone.device, backbone.dtype, non_blocking=True), pool, layout)
    rows = torch.cat([outcome.tokens, outcome.embedding]).float()  # (T + B, D)

    # A prompt's head reads all its rows at once; a head-only prompt reads the class tokens.
    asked: dict[Name, list[tuple[int, int]]] = {}  # prompt -> (image, row)
    pair = 0
    for image, names in enumerate(sets):
        for name, slot in zip(names, slots[image], strict=True):
            row = layout.pairs + image
            if slot is not None:
                row, pair = pair, pair + 1
            asked.setdefault(name, []).append((image, row))
    order = to_device([row for places in asked.values() for _, row in places], backbone.device)
    parts = torch.split_with_sizes(rows.index_select(0, order), [len(places) for places in asked.values()])
    found = [
        F.linear(part, seats[name].head_weight, seats[name].head_bias)  # (n, C)
        for name, part in zip(asked, parts, strict=True)
    ]

    # One copy to the host, and so one wait for the device.
    numbers = [*(part.flatten() for part in found), rows[layout.pairs :].flatten()]
    *flat, embedding = torch.split_with_sizes(torch.cat(numbers).cpu(), [part.numel() for part in numbers])
    logits: list[dict[Name, Tensor]] = [{} for _ in sets]
    for (name, places), part in zip(asked.items(), flat, strict=True):
        for (image, _), row_logits in zip(places, part.view(len(places), -1), strict=True):
            logits[image][name] = row_logits
    return logits, embedding.view(len(sets), -1)
