"""The peers' model: timm's own, whole, with a classifier; and what each of them does with it."""

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from alacarte.prompting.backbone.preprocess import decode
from alacarte.prompting.backbone.vit import Backbone, build_backbone

LABELS = 100  # as many as every prompt knows
TOP_K = 5

Weights = Path | Literal["random"]


class BareModel:
    """From a picture's bytes to its best labels, by one pass without any prompt."""

    def __init__(self, name: str, weights: Weights) -> None:
        self.backbone: Backbone = build_backbone(name, weights, log=lambda _: None)
        torch.manual_seed(0)
        self.backbone.model.reset_classifier(LABELS)
        self.backbone.model.requires_grad_(False).eval()

    def prepare(self, picture: bytes) -> Tensor:
        """The picture as (3, S, S), by the very steps that the service takes."""
        return self.backbone.preprocessing(decode(picture))

    @torch.inference_mode()
    def predict(self, images: Tensor) -> list[dict[str, list[dict[str, str | float]]]]:
        """For each of images (B, 3, S, S) the best labels and their scores."""
        scores, order = self.backbone.model(images).softmax(-1).topk(TOP_K)
        return [
            {"labels": [{"label": f"label-{label:03d}", "score": score} for label, score in zip(own, row, strict=True)]}
            for own, row in zip(order.tolist(), scores.tolist(), strict=True)
        ]

    def answer(self, picture: bytes) -> dict[str, list[dict[str, str | float]]]:
        """One picture's labels: all that a lone request needs computed."""
        return self.predict(self.prepare(picture)[None])[0]


def weights_of(text: str) -> Weights:
    """The weights as a command line names them."""
    return "random" if text == "random" else Path(text)
