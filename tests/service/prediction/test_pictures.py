"""Pictures in all common formats get the prediction of what they show."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

from tests.service.deployment import Deployment

SIDE = 48
LOSSY = 0.002  # tolerated change of a score by the rounding of JPEG and CMYK


def scene(levels: int = 256) -> Image.Image:
    """A picture that changes when it is rotated, mirrored, or converted to grey."""
    down, across = np.mgrid[0:SIDE, 0:SIDE] / (SIDE - 1)
    pixels = np.stack([across, down, 1 - across * down], axis=-1) * (levels - 1)
    return Image.fromarray((np.rint(pixels) * (255 // (levels - 1))).astype(np.uint8))


def grey() -> Image.Image:
    return scene().convert("L")


def with_hole(picture: Image.Image, colour: tuple[int, ...] = (255, 255, 255)) -> Image.Image:
    picture.paste(colour, (0, 0, SIDE // 2, SIDE // 2))
    return picture


def encoded(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:  # Any: Pillow's own options
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def rotated(kind: str) -> bytes:
    """Stored rotated, with an EXIF orientation that corrects it."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    return encoded(scene().transpose(Image.Transpose.ROTATE_90), kind, exif=exif, **({"quality": 98} | _LOSSLESS[kind]))


def animated(kind: str) -> bytes:
    """An animation whose first frame is the scene, and whose others are black."""
    black = [Image.new("RGB", (SIDE, SIDE))] * 2
    return encoded(scene(6) if kind == "GIF" else scene(), kind, save_all=True, append_images=black, **_LOSSLESS[kind])


def holed_palette() -> bytes:
    """A palette with one transparent colour, that of the hole."""
    picture = with_hole(scene(4), (1, 2, 3)).quantize(256)
    return encoded(picture, transparency=picture.getpixel((0, 0)))


def deep(kind: str) -> bytes:
    return encoded(Image.fromarray(np.asarray(grey()).astype(np.uint16) * 257), kind)


_LOSSLESS: dict[str, dict[str, Any]] = {"WEBP": {"lossless": True, "exact": True}, "JPEG": {}, "PNG": {}, "GIF": {}}

# What is sent, what it shows, and the tolerated difference of the scores.
FORMS: dict[str, tuple[Callable[[], bytes], Callable[[], Image.Image], float]] = {
    "a palette": (lambda: encoded(scene(4).quantize(256)), lambda: scene(4), 1e-4),
    "a palette with a hole": (holed_palette, lambda: with_hole(scene(4)), 1e-4),
    "transparency": (
        lambda: encoded(with_hole(scene().convert("RGBA"), (0, 0, 0, 0))),
        lambda: with_hole(scene()),
        1e-4,
    ),
    "grey": (lambda: encoded(grey()), lambda: grey().convert("RGB"), 1e-4),
    "grey with alpha": (lambda: encoded(grey().convert("LA")), lambda: grey().convert("RGB"), 1e-4),
    "16-bit PNG": (lambda: deep("PNG"), lambda: grey().convert("RGB"), 1e-4),
    "16-bit TIFF": (lambda: deep("TIFF"), lambda: grey().convert("RGB"), 1e-4),
    "rotated JPEG": (lambda: rotated("JPEG"), scene, LOSSY),
    "rotated PNG": (lambda: rotated("PNG"), scene, 1e-4),
    "rotated WebP": (lambda: rotated("WEBP"), scene, 1e-4),
    "animated GIF": (lambda: animated("GIF"), lambda: scene(6), 1e-4),
    "animated WebP": (lambda: animated("WEBP"), scene, 1e-4),
    "animated PNG": (lambda: animated("PNG"), scene, 1e-4),
    "CMYK JPEG": (lambda: encoded(scene().convert("CMYK"), "JPEG", quality=98), scene, LOSSY),
    "progressive JPEG": (lambda: encoded(scene(), "JPEG", quality=98, progressive=True), scene, LOSSY),
}


def scores(deployment: Deployment, content: bytes) -> dict[str, float]:
    answer = deployment.predict(image=content, sources=str(deployment.source), top_k="3")
    assert answer.status_code == 200, answer.text
    return {scored["label"]: scored["score"] for scored in answer.json()["results"][0]["labels"]}


@pytest.mark.parametrize("form", FORMS)
def test_a_picture_is_predicted_as_it_looks(form: str, deployment: Deployment) -> None:
    send, see, near = FORMS[form]

    assert scores(deployment, send()) == pytest.approx(scores(deployment, encoded(see())), abs=near)


def test_different_pictures_get_different_scores(deployment: Deployment) -> None:
    """Otherwise the test above could not fail."""
    expected = scores(deployment, encoded(scene()))
    others = [
        scene().transpose(Image.Transpose.ROTATE_90),
        grey(),
        Image.new("RGB", (SIDE, SIDE)),
        Image.new("RGB", (SIDE, SIDE), "white"),
        Image.fromarray(255 - np.asarray(scene())),
    ]

    for other in others:
        assert scores(deployment, encoded(other)) != pytest.approx(expected, abs=2 * LOSSY)
