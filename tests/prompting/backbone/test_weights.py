import pickle
from pathlib import Path

import pytest
import safetensors.torch
import timm
import torch
from torch import Tensor

from alacarte.prompting.backbone.preprocess import Preprocessing
from alacarte.prompting.backbone.weights import DEFAULT_BACKBONE, RANDOM, LoadedModel, load_model
from alacarte.prompting.errors import BackboneUnsupported, WeightsUnavailable

REAL = Path(__file__).parents[3].parent / "shared" / "weights" / "vit_tiny_patch16_224.safetensors"
HALF = (0.5, 0.5, 0.5)
ARCHITECTURE = "vit_tiny_patch16_224"

needs_real = pytest.mark.skipif(not REAL.exists(), reason=f"no {REAL.name} beside the repository")


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    """All tensors of a ViT-Ti, with its classifier."""
    return dict(timm.create_model(ARCHITECTURE).state_dict())


@pytest.fixture(scope="module")
def file(state: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(state, tmp_path_factory.mktemp("weights") / "tiny.safetensors")


def saved(state: dict[str, Tensor], file: Path) -> Path:
    safetensors.torch.save_file(state, file)
    return file


def numbers(loaded: LoadedModel) -> dict[str, Tensor]:
    return dict(loaded.model.state_dict())


def test_a_file_fills_the_default_architecture(file: Path, state: dict[str, Tensor], logged: list[str]) -> None:
    loaded = load_model(weights=file, log=logged.append)

    assert loaded.architecture == ARCHITECTURE
    assert loaded.preprocessing == Preprocessing(224, 0.9, HALF, HALF)
    assert loaded.origin == "file tiny.safetensors"
    assert logged == [f"backbone: {ARCHITECTURE} from file {file}"]
    assert numbers(loaded).keys() == state.keys() - {"head.weight", "head.bias"}
    assert all(torch.equal(tensor, state[name]) for name, tensor in numbers(loaded).items())


def test_the_model_is_frozen_and_has_no_classifier(file: Path) -> None:
    model = load_model(weights=file).model

    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert model(torch.zeros(1, 3, 224, 224)).shape == (1, 192)


def test_a_tag_chooses_the_preprocessing_and_not_the_architecture(file: Path) -> None:
    tagged = load_model(DEFAULT_BACKBONE, file)
    plain = load_model(ARCHITECTURE, file)

    assert (tagged.architecture, tagged.preprocessing) == (plain.architecture, plain.preprocessing)


def test_another_size_resamples_the_positions_as_timm_does(file: Path, state: dict[str, Tensor]) -> None:
    loaded = load_model(weights=file, size=160)

    theirs = timm.create_model(
        ARCHITECTURE, pretrained=True, pretrained_cfg_overlay={"state_dict": dict(state)}, img_size=160
    )
    assert loaded.preprocessing.size == 160
    assert torch.equal(numbers(loaded)["pos_embed"], theirs.state_dict()["pos_embed"])
    assert loaded.model(torch.zeros(1, 3, 160, 160)).shape == (1, 192)


@needs_real
def test_the_real_weights_load_and_separate_pictures() -> None:
    loaded = load_model(weights=REAL)
    whole = timm.create_model(ARCHITECTURE)
    whole.load_state_dict(safetensors.torch.load_file(REAL))
    picture = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))

    features = loaded.model(picture)

    torch.testing.assert_close(features, whole.eval().forward_head(whole.forward_features(picture), pre_logits=True))


def test_half_precision_becomes_single(state: dict[str, Tensor], tmp_path: Path) -> None:
    half = saved({name: tensor.half() for name, tensor in state.items()}, tmp_path / "half.safetensors")

    assert numbers(load_model(weights=half))["cls_token"].dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"norm.weight": None, "norm.bias": None}, "missing: norm.weight, norm.bias"),
        ({"blocks.12.norm1.bias": torch.zeros(192)}, "unexpected: blocks.12.norm1.bias"),
        ({"norm.weight": torch.zeros(7)}, "other shapes: norm.weight"),
        ({"patch_embed.proj.weight": torch.zeros(192, 3, 32, 32)}, "other shapes: patch_embed.proj.weight"),
        ({"pos_embed": torch.zeros(1, 198, 192)}, "does not fit"),
        ({"norm.weight": torch.full((192,), torch.nan)}, "not finite numbers: norm.weight"),
        ({"norm.weight": torch.ones(192, dtype=torch.int32)}, "not finite numbers: norm.weight"),
    ],
    ids=["missing", "unexpected", "shape", "patches", "positions", "nan", "integers"],
)
def test_weights_that_do_not_fit_are_refused_by_name(
    state: dict[str, Tensor], change: dict[str, Tensor | None], reason: str, tmp_path: Path, logged: list[str]
) -> None:
    changed = {name: tensor for name, tensor in {**state, **change}.items() if tensor is not None}
    odd = saved(changed, tmp_path / "odd.safetensors")

    with pytest.raises(WeightsUnavailable, match=reason):
        load_model(weights=odd, log=logged.append)
    assert logged == []


def test_many_problems_are_counted_and_not_listed(tmp_path: Path) -> None:
    nearly_empty = saved({"cls_token": torch.zeros(1, 1, 192)}, tmp_path / "few.safetensors")

    with pytest.raises(WeightsUnavailable, match="and 146 more") as refusal:
        load_model(weights=nearly_empty)
    assert len(str(refusal.value)) < 400


def test_a_broken_file_is_refused(file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(file.read_bytes()[:1_000_000])

    with pytest.raises(WeightsUnavailable, match=r"broken\.safetensors cannot be read"):
        load_model(weights=broken)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnavailable, match=r"gone\.safetensors"):
        load_model(weights=tmp_path / "gone.safetensors")


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("suffix", [".pth", ".pt", ".bin", ".safetensors"])
def test_a_pickle_is_never_opened(suffix: str, tmp_path: Path) -> None:
    trap, mark = tmp_path / f"weights{suffix}", tmp_path / "opened"
    trap.write_bytes(pickle.dumps(Trap(mark)))

    with pytest.raises(WeightsUnavailable, match="safetensors"):
        load_model(weights=trap)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("vit_tiny_patch16_242", None, "did you mean vit_tiny_patch16_224"),
        ("vit_tiny_patch16_224.augreg", None, "augreg_in21k_ft_in1k"),  # a known tag
        ("resnet18", None, "ResNet"),
        (None, 150, "144 or 160"),  # multiples of the patch
        (None, 5, "16 or 32"),
        (None, 0, "at least 1 pixel, not 0"),
    ],
)
def test_an_unsupported_name_tag_or_size_is_refused_with_the_alternatives(
    name: str | None, size: int | None, reason: str
) -> None:
    with pytest.raises(BackboneUnsupported, match=reason):
        load_model(name, RANDOM, size)


def test_random_weights_are_the_same_each_time(logged: list[str]) -> None:
    first = numbers(load_model(weights=RANDOM, log=logged.append))
    torch.manual_seed(1)

    again = numbers(load_model(weights=RANDOM, log=logged.append))

    assert all(torch.equal(first[name], again[name]) for name in first)
    assert logged == [f"backbone: {ARCHITECTURE} with random weights, as requested; it is not trained"] * 2
