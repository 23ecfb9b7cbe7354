"""One pass with many prompts, over the bare pass of the same batch: `python -m bench.forward [--json] [--quick]`.

For comparison: the paper's masked joint attention, an ensemble of k passes, and the limit by the number of rows.
"""

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from alacarte.prompting.attention.masked_reference import joint_forward, structured_mask
from alacarte.prompting.backbone.vit import Backbone, build_backbone
from alacarte.prompting.predict import Predictor
from alacarte.prompting.prompt.metadata import PromptMetadata
from alacarte.prompting.prompt.tensors import PromptTensors, TrainedPrompt
from bench.output import TableRow, print_tables
from bench.timing import Timing, measure

PROMPTS = (1, 5, 20, 50)
LABELS = 100
MEMORY = 5
PROTOTYPES = 20
RAGGED = (5, 14, 23, 38)  # prompts of each image, 20 on average


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
    prompts = {f"prompt-{number:02d}": prompt for number, prompt in enumerate(random_prompts(backbone, max(PROMPTS)))}
    predictor = Predictor(backbone, prompts)
    names = list(prompts)

    contenders: dict[str, Callable[[], object]] = {"bare": functools.partial(bare, backbone, images)}
    for count in PROMPTS:
        sets = [names[:count]] * options.batch
        contenders[f"structured {count}"] = functools.partial(predictor.logits, images, sets)
    counts = [RAGGED[image % len(RAGGED)] for image in range(options.batch)]
    ragged = [neighbours(names, image, count) for image, count in enumerate(counts)]
    even = [neighbours(names, image, (sum(counts) + image) // options.batch) for image in range(options.batch)]
    assert sum(map(len, even)) == sum(map(len, ragged)), "both have the same number of (image, prompt) pairs"
    contenders["even"] = functools.partial(predictor.logits, images, even)
    contenders["ragged"] = functools.partial(predictor.logits, images, ragged)
    wait = torch.cuda.synchronize if backbone.device.type == "cuda" else lambda: None
    results = measure(contenders, rounds=2 if options.quick else 10, wait=wait)

    # The slow contenders take turns with the bare pass as well, but only once.
    slow: dict[str, Callable[[], object]] = {"bare": contenders["bare"]}
    for count in PROMPTS[:2] if options.quick else PROMPTS:
        slow[f"joint {count}"] = functools.partial(joint, backbone, images, [prompts[n].tensors for n in names[:count]])
        slow[f"ensemble {count}"] = functools.partial(ensemble, backbone, images, count)
    slow_results = measure(slow, rounds=1, warmups=0, wait=wait)

    tokens = backbone.tokens
    rows = [make_row(count, tokens, results, slow_results) for count in PROMPTS]
    summary: dict[str, object] = {
        "backbone": backbone.architecture,
        "batch": options.batch,
        "bare_ms": results["bare"].seconds * 1000,
        "bare_peak_mb": results["bare"].peak_mb,
        "ragged_over_even": results["ragged"].seconds / results["even"].seconds,
    }
    print_tables({"one pass with prompts": rows}, summary, options.json)


def neighbours(names: Sequence[str], start: int, count: int) -> list[str]:
    """Return consecutive names, continuing with the first after the last."""
    return [names[(start + step) % len(names)] for step in range(count)]


def make_row(count: int, tokens: int, results: dict[str, Timing], slow: dict[str, Timing]) -> TableRow:
    """Return the row of the table for this number of prompts per image."""
    bare_seconds, ours = results["bare"].seconds, results[f"structured {count}"]
    joint_timing, ensemble_timing = slow.get(f"joint {count}"), slow.get(f"ensemble {count}")
    return {
        "prompts": count,
        "ms": ours.seconds * 1000,
        "over_bare": ours.seconds / bare_seconds,
        "flop_limit": (tokens + count) / tokens,
        "joint_over_bare": joint_timing.seconds / slow["bare"].seconds if joint_timing else None,
        "ensemble_over_bare": ensemble_timing.seconds / slow["bare"].seconds if ensemble_timing else None,
        "peak_mb": ours.peak_mb,
        "joint_peak_mb": joint_timing.peak_mb if joint_timing else None,
    }


def random_prompts(backbone: Backbone, count: int) -> Iterator[TrainedPrompt]:
    """Generate deep prompts with random numbers, always the same ones."""
    generator = torch.Generator().manual_seed(0)
    labels = tuple(f"label-{index:03d}" for index in range(LABELS))
    metadata = PromptMetadata(backbone.identity, backbone.architecture, backbone.preprocessing.size, labels, 1, 0, {})

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) * 0.02

    for _ in range(count):
        tensors = PromptTensors(
            variant="deep",
            token=random(backbone.width),
            memory=random(backbone.depth, MEMORY, backbone.width),
            head_weight=random(LABELS, backbone.width),
            head_bias=random(LABELS),
            prototypes=random(PROTOTYPES, backbone.width),
        )
        yield TrainedPrompt(tensors, metadata)


@torch.inference_mode()
def bare(backbone: Backbone, images: Tensor) -> Tensor:
    """timm's own forward pass, without any prompt."""
    return backbone.model.forward_features(images)  # type: ignore[no-any-return]  # timm is untyped


@torch.inference_mode()
def joint(backbone: Backbone, images: Tensor, prompts: Sequence[PromptTensors]) -> Tensor:
    """The paper's equations literally: all tokens in one sequence, and a mask."""
    tokens = torch.stack([p.token for p in prompts if p.token is not None]).to(images)
    memories = [p.memory.to(images) for p in prompts if p.memory is not None]
    mask = structured_mask(backbone.tokens, [MEMORY] * len(prompts), images.device)
    return joint_forward(backbone, images, tokens, memories, mask).tokens


def ensemble(backbone: Backbone, images: Tensor, members: int) -> None:
    """One pass for every member, the cost of an ensemble of tuned models."""
    for _ in range(members):
        bare(backbone, images)


if __name__ == "__main__":
    main()
