"""Assemble a backbone: weights from where they can be had, on the device and in the precision asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch

from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.backbone.weights import load_model, log_to_stderr


def build_backbone(
    name: str | None = None,
    weights: Path | Literal["random"] | None = None,
    size: int | None = None,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    log: Callable[[str], None] = log_to_stderr,
) -> Backbone:
    """The frozen backbone of that name; `say` is told in one line where its weights come from."""
    loaded = load_model(name, weights, size, log)
    return Backbone(loaded.model, loaded.architecture, loaded.preprocessing, device, dtype)
