import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from alacarte.prompting.augment import FULL_MAGNITUDE, GREY, OPERATIONS, Operation, rand_augment

SIGNED = [operation for operation in OPERATIONS if operation.signed]
BY_NAME = {operation.name: operation for operation in OPERATIONS}


def name_of(operation: Operation) -> str:
    return operation.name


def picture(seed: int = 0, width: int = 40, height: int = 32) -> Image.Image:
    """Coarse colours of medium brightness, which every operation changes."""
    levels = np.random.default_rng(seed).integers(40, 200, (5, 6, 3), dtype=np.uint8)
    return Image.fromarray(levels).resize((width, height), Image.Resampling.BICUBIC)


def test_the_fourteen_operations_of_the_paper_are_there() -> None:
    expected = "identity auto-contrast equalize rotate solarize color posterize contrast brightness sharpness"
    assert " ".join(BY_NAME) == f"{expected} shear-x shear-y translate-x translate-y"


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), operations=st.integers(0, 4), magnitude=st.integers(0, FULL_MAGNITUDE))
def test_equal_generators_give_equal_bytes_of_the_same_size(seed: int, operations: int, magnitude: int) -> None:
    first = rand_augment(picture(), random.Random(seed), operations, magnitude)
    again = rand_augment(picture(), random.Random(seed), operations, magnitude)

    assert first.tobytes() == again.tobytes()
    assert (first.size, first.mode) == ((40, 32), "RGB")


def test_other_generators_give_other_pictures() -> None:
    drawn = {rand_augment(picture(), random.Random(seed)).tobytes() for seed in range(50)}

    assert len(drawn) > 40


def test_the_input_picture_and_the_global_generator_are_unchanged() -> None:
    random.seed(7)
    state, source = random.getstate(), picture()
    before = source.tobytes()

    for seed in range(30):
        rand_augment(source, random.Random(seed))

    assert random.getstate() == state
    assert source.tobytes() == before


def test_threads_do_not_disturb_each_other() -> None:
    def augment(seed: int) -> bytes:
        return rand_augment(picture(seed), random.Random(seed)).tobytes()

    alone = [augment(seed) for seed in range(40)]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(augment, range(40))) == alone


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_every_operation_but_the_identity_changes_the_picture(operation: Operation) -> None:
    changed = operation.apply(picture(), 10 / FULL_MAGNITUDE)

    assert (changed.tobytes() != picture().tobytes()) == (operation.name != "identity")


def test_solarize_inverts_only_pixels_above_its_threshold() -> None:
    levels = Image.fromarray(np.array([[[100] * 3, [170] * 3, [171] * 3, [255] * 3]], dtype=np.uint8))

    turned = BY_NAME["solarize"].apply(levels, 10 / FULL_MAGNITUDE)

    assert np.asarray(turned)[0, :, 0].tolist() == [100, 170, 84, 0]


@pytest.mark.parametrize("operation", SIGNED, ids=name_of)
def test_a_signed_operation_differs_by_its_sign(operation: Operation) -> None:
    assert operation.apply(picture(), 0.5).tobytes() != operation.apply(picture(), -0.5).tobytes()


@pytest.mark.parametrize("operation", SIGNED, ids=name_of)
def test_strength_zero_changes_nothing(operation: Operation) -> None:
    assert operation.apply(picture(), 0.0).tobytes() == picture().tobytes()


def test_the_area_outside_a_moved_picture_is_grey() -> None:
    white = Image.new("RGB", (100, 100), "white")

    moved = BY_NAME["translate-x"].apply(white, 1.0)

    assert moved.getpixel((99, 50)) == GREY
    assert moved.getpixel((0, 50)) == (255, 255, 255)
    assert np.asarray(moved)[50, :, 0].tolist().count(GREY[0]) == 45


def test_all_operations_and_both_signs_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: set[tuple[str, bool]] = set()

    def spy(operation: Operation) -> Operation:
        def apply(image: Image.Image, strength: float) -> Image.Image:
            assert abs(strength) == 10 / FULL_MAGNITUDE
            drawn.add((operation.name, strength > 0))
            return image

        return Operation(operation.name, apply, operation.signed)

    monkeypatch.setattr("alacarte.prompting.augment.OPERATIONS", tuple(map(spy, OPERATIONS)))
    rand_augment(picture(), random.Random(0), operations=1000)

    unsigned = {(operation.name, True) for operation in OPERATIONS}
    assert drawn == unsigned | {(operation.name, False) for operation in SIGNED}


@pytest.mark.parametrize("magnitude", [-1, 31])
def test_a_magnitude_beyond_the_scale_is_refused(magnitude: int) -> None:
    with pytest.raises(ValueError, match="must be from 0 to 30"):
        rand_augment(picture(), random.Random(0), magnitude=magnitude)
