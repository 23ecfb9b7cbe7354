import io
import json
import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import timm
import timm.data
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from alacarte.prompting.backbone.preprocess import MAX_ASPECT, Preprocessing, decode, preprocessing_of
from alacarte.prompting.errors import BackboneUnsupported, PictureDecodeError

HALF = (0.5, 0.5, 0.5)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    levels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(levels)


def encoded(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def pixels(image: Image.Image) -> NDArray[np.int16]:
    return np.asarray(image).astype(np.int16)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_header(width: int, height: int) -> bytes:
    """A PNG that promises a size and holds no pixel."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", b"")


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "PPM"])
def test_a_lossless_picture_is_decoded_as_it_was(form: str) -> None:
    picture = noise(7, 5)

    assert np.array_equal(pixels(decode(encoded(picture, form))), pixels(picture))


def test_a_path_and_its_bytes_decode_to_the_same_picture(tmp_path: Path) -> None:
    file = tmp_path / "picture.jpg"
    file.write_bytes(encoded(noise(30, 20), "JPEG"))

    assert decode(file).tobytes() == decode(file.read_bytes()).tobytes()


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_rotated_by_its_exif_orientation(form: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    stored = encoded(Image.linear_gradient("L").resize((24, 16)).convert("RGB"), form, exif=exif)

    decoded = decode(stored)

    with Image.open(io.BytesIO(stored)) as opened:
        assert np.array_equal(pixels(decoded), pixels(ImageOps.exif_transpose(opened).convert("RGB")))
    assert decoded.size == ((16, 24) if orientation >= 5 else (24, 16))


def test_orientation_six_moves_the_left_bottom_corner_to_the_left_top() -> None:
    picture = Image.new("RGB", (3, 2))
    picture.putpixel((0, 1), (255, 0, 0))
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6

    assert decode(encoded(picture, exif=exif)).getpixel((0, 0)) == (255, 0, 0)


def test_damaged_exif_leaves_the_picture_as_it_is_stored() -> None:
    picture = noise(6, 4)

    assert decode(encoded(picture, exif=b"Exif\x00\x00garbage")).size == (6, 4)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_becomes_white(mode: str) -> None:
    black = Image.new(mode, (3, 1))
    for x, alpha in enumerate((0, 128, 255)):
        black.putpixel((x, 0), (0,) * (len(mode) - 1) + (alpha,))

    decoded = decode(encoded(black))

    assert pixels(decoded)[0].tolist() == [[255] * 3, [127] * 3, [0] * 3]


def test_a_transparent_palette_colour_becomes_white() -> None:
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30, 200, 100, 50])
    picture.putpixel((1, 0), 1)

    decoded = decode(encoded(picture, transparency=0))

    assert pixels(decoded)[0].tolist() == [[255, 255, 255], [200, 100, 50]]


def test_cmyk_is_converted_to_rgb() -> None:
    red = Image.new("RGB", (16, 16), (220, 30, 40)).convert("CMYK")

    decoded = decode(encoded(red, "JPEG", quality=95))

    assert np.abs(pixels(decoded) - [220, 30, 40]).max() <= 4


@pytest.mark.parametrize(
    ("form", "levels", "expected"),
    [
        *((form, np.array([[0, 257, 32896, 65535]], np.uint16), [0, 1, 128, 255]) for form in ("PNG", "TIFF", "PPM")),
        ("TIFF", np.array([[-5, 32896, 65535, 1 << 20]], np.int32), [0, 128, 255, 255]),
        *(
            ("TIFF", np.array([[0.0, 0.5 * white, white, np.nan]], np.float32), [0, 128, 255, 0])
            for white in (1.0, 255.0, 65535.0)
        ),
    ],
    ids=["16 bits", "16 bits, TIFF", "16 bits, PPM", "32 bits", "float to 1", "float to 255", "float to 65535"],
)
def test_deep_grey_is_scaled_to_its_white_and_not_clipped(
    form: str, levels: NDArray[np.generic], expected: list[int]
) -> None:
    decoded = decode(encoded(Image.fromarray(levels), form))

    assert pixels(decoded)[0].tolist() == [[level] * 3 for level in expected]


def test_one_bit_is_black_and_white() -> None:
    picture = Image.new("1", (2, 1))
    picture.putpixel((1, 0), 1)

    assert pixels(decode(encoded(picture)))[0].tolist() == [[0] * 3, [255] * 3]


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_the_first_frame_of_an_animation_is_decoded(form: str) -> None:
    red, blue = (Image.new("RGB", (8, 8), colour) for colour in ("red", "blue"))

    decoded = decode(encoded(red, form, save_all=True, append_images=[blue]))

    assert np.abs(pixels(decoded) - [255, 0, 0]).max() <= 4


def test_the_fallback_picture_of_an_apng_is_skipped() -> None:
    shown, hidden = noise(9, 7), noise(9, 7, seed=1)
    file = io.BytesIO()
    hidden.save(file, "PNG", save_all=True, default_image=True, append_images=[shown, noise(9, 7, seed=2)])

    assert np.array_equal(np.asarray(decode(file.getvalue())), np.asarray(shown))


def test_a_picture_with_more_than_the_allowed_pixels_is_refused() -> None:
    assert decode(encoded(noise(10, 10)), max_pixels=100).size == (10, 10)
    with pytest.raises(PictureDecodeError, match="11 x 10 pixels are more than the 100 allowed"):
        decode(encoded(noise(11, 10)), max_pixels=100)


@pytest.mark.parametrize("side", [8_000, 10_000, 100_000])
def test_too_large_a_picture_is_refused_by_its_header_without_a_warning(side: int) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(PictureDecodeError, match=f"{side} x {side} pixels"):
            decode(png_header(side, side))

    assert warned == []


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b"", "empty"),
        (b"hello", "not a picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
        (encoded(noise(64, 64), "JPEG")[:900], "truncated"),
        (png_header(4, 4), "truncated"),
    ],
    ids=["nothing", "text", "postscript", "truncated", "header"],
)
def test_bytes_that_are_not_a_picture_are_refused_with_the_reason(broken: bytes, reason: str) -> None:
    with pytest.raises(PictureDecodeError, match=reason):
        decode(broken)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PictureDecodeError, match=r"gone\.png"):
        decode(tmp_path / "gone.png")


@settings(max_examples=150)
@given(
    form=st.sampled_from(["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM"]),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_damaged_bytes_are_a_picture_or_refused(form: str, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(encoded(noise(9, 9), form))
    for offset, value in changes:
        damaged[offset % len(damaged)] = value

    try:
        decoded = decode(bytes(damaged), max_pixels=1_000_000)
    except PictureDecodeError:
        return
    assert decoded.mode == "RGB"


def test_threads_do_not_disturb_each_other() -> None:
    files = [encoded(noise(40, 30, seed), "JPEG") for seed in range(8)]
    alone = [decode(file).tobytes() for file in files]

    with ThreadPoolExecutor(4) as threads:
        together = [image.tobytes() for image in threads.map(decode, files * 5)]

    assert together == alone * 5


@settings(max_examples=60)
@given(
    width=st.integers(1, 400),
    height=st.integers(1, 400),
    size=st.sampled_from([32, 154, 224]),
    crop_pct=st.sampled_from([0.875, 0.9, 0.95, 1.0]),
    interpolation=st.sampled_from(["bicubic", "bilinear"]),
    crop_mode=st.sampled_from(["center", "squash"]),
)
def test_numbers_equal_those_of_timm(
    width: int, height: int, size: int, crop_pct: float, interpolation: str, crop_mode: str
) -> None:
    height = min(max(height, -(-width // (MAX_ASPECT - 1))), (MAX_ASPECT - 1) * width)
    picture = noise(width, height)
    ours = Preprocessing(size, crop_pct, MEAN, STD, interpolation, crop_mode)  # type: ignore[arg-type]
    theirs = timm.data.create_transform(
        (3, size, size), mean=MEAN, std=STD, crop_pct=crop_pct, interpolation=interpolation, crop_mode=crop_mode
    )

    difference = (ours(picture) - theirs(picture)).abs().amax((1, 2)) * torch.tensor(STD)

    assert difference.max() < 1.001 / 255


@pytest.mark.parametrize(("width", "height"), [(1, 3_000_000), (3_000_000, 1)])
def test_an_extremely_long_picture_needs_little_memory(width: int, height: int) -> None:
    picture = Image.new("RGB", (width, height), (40, 80, 120))

    fitted = Preprocessing(224, 0.9, HALF, HALF).fit(picture)

    assert fitted.size == (224, 224)
    assert fitted.getextrema() == ((40, 40), (80, 80), (120, 120))


def test_the_centre_of_a_long_picture_is_kept() -> None:
    picture = Image.new("RGB", (2001, 20), "black")
    picture.paste((255, 255, 255), (950, 0, 1051, 20))

    fitted = Preprocessing(32, 1.0, HALF, HALF).fit(picture)

    assert fitted.getextrema() == ((255, 255),) * 3


def test_the_tensor_is_contiguous_and_normalised() -> None:
    numbers = Preprocessing(4, 1.0, HALF, HALF)(Image.new("RGB", (8, 8), (255, 0, 51)))

    assert numbers.shape == (3, 4, 4)
    assert numbers.dtype == torch.float32
    assert numbers.is_contiguous()
    torch.testing.assert_close(numbers[:, 0, 0], torch.tensor([1.0, -1.0, -0.6]))


def test_the_tensor_is_writable_and_not_shared() -> None:
    preprocessing, picture = Preprocessing(4, 1.0, HALF, HALF), noise(4, 4)
    first = preprocessing(picture)
    before = first.clone()

    first.zero_()

    assert torch.equal(preprocessing(picture), before)


def test_a_picture_that_was_not_fitted_is_refused() -> None:
    with pytest.raises(PictureDecodeError, match="expected RGB of 4 x 4"):
        Preprocessing(4, 1.0, HALF, HALF).tensor(noise(5, 4))


def test_the_description_is_json_in_a_fixed_order() -> None:
    described = json.dumps(Preprocessing(224, 0.9, HALF, STD).describe())

    assert described == (
        '{"size": 224, "crop_pct": 0.9, "crop_mode": "center", "mean": [0.5, 0.5, 0.5], '
        '"std": [0.229, 0.224, 0.225], "interpolation": "bicubic"}'
    )


@pytest.mark.parametrize("change", [{"size": 0}, {"crop_pct": 1.5}, {"interpolation": "magic"}])
def test_impossible_preprocessing_is_refused(change: dict[str, object]) -> None:
    settings: dict[str, object] = {"size": 8, "crop_pct": 1.0, "mean": HALF, "std": HALF}

    with pytest.raises(BackboneUnsupported):
        Preprocessing(**(settings | change))  # type: ignore[arg-type]


def test_the_preprocessing_of_a_model_is_timms() -> None:
    model = timm.create_model("vit_tiny_patch16_224.augreg_in21k_ft_in1k", num_classes=0)

    assert preprocessing_of(model, None) == Preprocessing(224, 0.9, HALF, HALF)
    assert preprocessing_of(model, 160) == Preprocessing(160, 0.9, HALF, HALF)
