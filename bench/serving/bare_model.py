"""The model of the baselines: timm's own vision transformer with a classifier, without prompts."""

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from alacarte.prompting.backbone.preprocess import decode
from alacarte.prompting.backbone.vit import Backbone, build_backbone

LABELS = 100  # as many as a prompt has
TOP_K = 5

Weights = Path | Literal["random"]


class BareModel:
    """Predicts the best labels of a picture by one pass without prompts."""

    def __init__(self, name: str, weights: Weights) -> None:
        self.backbone: Backbone = build_backbone(name, weights, log=lambda _: None)
        torch.manual_seed(0)
        self.backbone.model.reset_classifier(LABELS)
        self.backbone.model.requires_grad_(False).eval()

    def prepare(self, picture: bytes) -> Tensor:
        """Decode and preprocess the picture to (3, S, S) as the service does."""
        return self.backbone.preprocessing(decode(picture))

    @torch.inference_mode()
    def predict(self, images: Tensor) -> list[dict[str, list[dict[str, str | float]]]]:
        """Return the best labels and their scores for each of the images (B, 3, S, S)."""
        scores, order = self.backbone.model(images).softmax(-1).topk(TOP_K)
        return [
            {"labels": [{"label": f"label-{label:03d}", "score": score} for label, score in zip(own, row, strict=True)]}
            for own, row in zip(order.tolist(), scores.tolist(), strict=True)
        ]

    def predict_one(self, picture: bytes) -> dict[str, list[dict[str, str | float]]]:
        """Return the labels of one picture: all computation of a single request."""
        return self.predict(self.prepare(picture)[None])[0]


def parse_weights(text: str) -> Weights:
    """Parse the weights option of a command line."""
    return "random" if text == "random" else Path(text)
