"""Assemble a backbone: weights from where they can be had, on the device and in the precision asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.backbone.weights import load_model, say_on_stderr


def build_backbone(
    name: str | None = None,
    weights: Path | Literal["random"] | None = None,
    size: int | None = None,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    say: Callable[[str], None] = say_on_stderr,
) -> Backbone:
    """The frozen backbone of that name; `say` is told in one line where its weights come from."""
    loaded = load_model(name, weights, size, say)
    return Backbone(loaded.model, loaded.architecture, loaded.preprocessing, device, dtype)
