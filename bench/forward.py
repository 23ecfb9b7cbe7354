"""One pass with many prompts, over the bare pass of the same batch: `python -m bench.forward [--json] [--quick]`.

Beside it: the paper's masked joint attention, an ensemble of k passes, and the limit that the rows set.
"""

import argparse
import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from alacarte.prompting.attention.masked_reference import joint_forward, structured_mask
from alacarte.prompting.backbone.vit import Backbone, build_backbone
from alacarte.prompting.predict import Predictor
from alacarte.prompting.prompt.metadata import PromptMetadata
from alacarte.prompting.prompt.tensors import PromptTensors, TrainedPrompt
from bench.timing import Measured, measure, show

PROMPTS = (1, 5, 20, 50)
LABELS = 100
MEMORY = 5
RAGGED = (5, 14, 23, 38)  # 20 pairs an image on average, every image another number


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="vit_base_patch16_224")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and ensembles of 1 and 5 only")
    options = parser.parse_args()

    backbone = build_backbone(options.backbone, weights="random", device=options.device)
    side = backbone.preprocessing.size
    images = torch.randn(options.batch, 3, side, side, device=backbone.device)
    predictor, prompts = random_prompts(backbone, max(PROMPTS))
    names = list(prompts)

    contenders: dict[str, Callable[[], object]] = {"bare": functools.partial(bare, backbone, images)}
    for count in PROMPTS:
        sets = [names[:count]] * options.batch
        contenders[f"structured {count}"] = functools.partial(predictor.logits, images, sets)
    counts = [RAGGED[image % len(RAGGED)] for image in range(options.batch)]
    ragged = [neighbours(names, image, count) for image, count in enumerate(counts)]
    even = [neighbours(names, image, (sum(counts) + image) // options.batch) for image in range(options.batch)]
    assert sum(map(len, even)) == sum(map(len, ragged)), "both ask for the same number of pairs"
    contenders["even"] = functools.partial(predictor.logits, images, even)
    contenders["ragged"] = functools.partial(predictor.logits, images, ragged)
    wait = torch.cuda.synchronize if backbone.device.type == "cuda" else lambda: None
    results = measure(contenders, rounds=2 if options.quick else 10, wait=wait)

    # The slow ones take turns with the bare pass too, a few times only.
    slow: dict[str, Callable[[], object]] = {"bare": contenders["bare"]}
    for count in PROMPTS[:2] if options.quick else PROMPTS:
        slow[f"joint {count}"] = functools.partial(joint, backbone, images, [prompts[n].tensors for n in names[:count]])
        slow[f"ensemble {count}"] = functools.partial(ensemble, backbone, images, count)
    slow_results = measure(slow, rounds=1, warmups=0, wait=wait)

    tokens = backbone.tokens
    rows = [row_of(count, tokens, results, slow_results) for count in PROMPTS]
    summary: dict[str, object] = {
        "backbone": backbone.architecture,
        "batch": options.batch,
        "bare_ms": results["bare"].seconds * 1000,
        "bare_peak_mb": results["bare"].peak_mb,
        "ragged_over_even": results["ragged"].seconds / results["even"].seconds,
    }
    show("one pass with prompts, over the bare pass", rows, summary, options.json)


def neighbours(names: Sequence[str], start: int, count: int) -> list[str]:
    """So many names in a row, from the first again after the last."""
    return [names[(start + step) % len(names)] for step in range(count)]


def row_of(
    count: int, tokens: int, results: dict[str, Measured], slow: dict[str, Measured]
) -> dict[str, float | int | str | None]:
    """The line of the table for so many prompts an image."""
    bare_seconds, ours = results["bare"].seconds, results[f"structured {count}"]
    joined, many = slow.get(f"joint {count}"), slow.get(f"ensemble {count}")
    return {
        "prompts": count,
        "ms": ours.seconds * 1000,
        "over_bare": ours.seconds / bare_seconds,
        "flop_limit": (tokens + count) / tokens,
        "joint_over_bare": joined.seconds / slow["bare"].seconds if joined else None,
        "ensemble_over_bare": many.seconds / slow["bare"].seconds if many else None,
        "peak_mb": ours.peak_mb,
        "joint_peak_mb": joined.peak_mb if joined else None,
    }


def random_prompts(backbone: Backbone, count: int) -> tuple[Predictor, dict[str, TrainedPrompt]]:
    """So many deep prompts of random numbers, and a predictor that holds them."""
    generator = torch.Generator().manual_seed(0)
    labels = tuple(f"label-{index:03d}" for index in range(LABELS))
    metadata = PromptMetadata(backbone.identity, backbone.architecture, backbone.preprocessing.size, labels, 1, 0, {})

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) * 0.02

    prompts = {
        f"prompt-{index:02d}": TrainedPrompt(
            PromptTensors(
                variant="deep",
                token=random(backbone.width),
                memory=random(backbone.depth, MEMORY, backbone.width),
                head_weight=random(LABELS, backbone.width),
                head_bias=random(LABELS),
                prototypes=random(20, backbone.width),
            ),
            metadata,
        )
        for index in range(count)
    }
    return Predictor(backbone, prompts), prompts


@torch.inference_mode()
def bare(backbone: Backbone, images: Tensor) -> Tensor:
    """timm's own forward pass, without any prompt."""
    return backbone.model.forward_features(images)  # type: ignore[no-any-return]  # timm is untyped


@torch.inference_mode()
def joint(backbone: Backbone, images: Tensor, prompts: Sequence[PromptTensors]) -> Tensor:
    """The paper's equations as they stand: all tokens in one sequence, and a mask."""
    tokens = torch.stack([p.token for p in prompts if p.token is not None]).to(images)
    memories = [p.memory.to(images) for p in prompts if p.memory is not None]
    mask = structured_mask(backbone.tokens, [MEMORY] * len(prompts), images.device)
    return joint_forward(backbone, images, tokens, memories, mask).tokens


def ensemble(backbone: Backbone, images: Tensor, members: int) -> None:
    """One pass for every member, as an ensemble of tuned models costs."""
    for _ in range(members):
        bare(backbone, images)


if __name__ == "__main__":
    main()
