"""RandAugment (Cubuk et al. 2020): a few random operations of one strength, drawn from the caller's generator."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image, ImageEnhance, ImageOps

FULL_MAGNITUDE = 30  # the paper's scale runs from 0 to 30
GREY = (128, 128, 128)

MAX_DEGREES = 30.0
MAX_SHEAR = 0.3
MAX_SHIFT = 150 / 331  # of the side: AutoAugment's 150 of 331 pixels
MAX_ENHANCEMENT = 0.9  # factors from 0.1 to 1.9
LOST_BITS = 4


@dataclass(frozen=True)
class Operation:
    """An operation on a picture; its strength is in [0, 1], or in [-1, 1] if it is signed."""

    name: str
    apply: Callable[[Image.Image, float], Image.Image]
    signed: bool = False


def _move(image: Image.Image, matrix: tuple[float, float, float, float, float, float]) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=GREY)


def _rotate(image: Image.Image, strength: float) -> Image.Image:
    return image.rotate(MAX_DEGREES * strength, Image.Resampling.BILINEAR, fillcolor=GREY)


def _shear_x(image: Image.Image, strength: float) -> Image.Image:
    slant = MAX_SHEAR * strength
    return _move(image, (1, slant, -slant * image.height / 2, 0, 1, 0))


def _shear_y(image: Image.Image, strength: float) -> Image.Image:
    slant = MAX_SHEAR * strength
    return _move(image, (1, 0, 0, slant, 1, -slant * image.width / 2))


def _translate_x(image: Image.Image, strength: float) -> Image.Image:
    return _move(image, (1, 0, round(MAX_SHIFT * strength * image.width), 0, 1, 0))


def _translate_y(image: Image.Image, strength: float) -> Image.Image:
    return _move(image, (1, 0, 0, 0, 1, round(MAX_SHIFT * strength * image.height)))


def _posterize(image: Image.Image, strength: float) -> Image.Image:
    return ImageOps.posterize(image, 8 - round(LOST_BITS * strength))


def _solarize(image: Image.Image, strength: float) -> Image.Image:
    return ImageOps.solarize(image, round(256 * (1 - strength)))


def _factor(strength: float) -> float:
    return 1 + MAX_ENHANCEMENT * strength


OPERATIONS = (
    Operation("identity", lambda image, _: image),
    Operation("auto-contrast", lambda image, _: ImageOps.autocontrast(image)),
    Operation("equalize", lambda image, _: ImageOps.equalize(image)),
    Operation("rotate", _rotate, signed=True),
    Operation("solarize", _solarize),
    Operation("color", lambda image, s: ImageEnhance.Color(image).enhance(_factor(s)), signed=True),
    Operation("posterize", _posterize),
    Operation("contrast", lambda image, s: ImageEnhance.Contrast(image).enhance(_factor(s)), signed=True),
    Operation("brightness", lambda image, s: ImageEnhance.Brightness(image).enhance(_factor(s)), signed=True),
    Operation("sharpness", lambda image, s: ImageEnhance.Sharpness(image).enhance(_factor(s)), signed=True),
    Operation("shear-x", _shear_x, signed=True),
    Operation("shear-y", _shear_y, signed=True),
    Operation("translate-x", _translate_x, signed=True),
    Operation("translate-y", _translate_y, signed=True),
)


def rand_augment(image: Image.Image, rng: random.Random, operations: int = 2, magnitude: int = 10) -> Image.Image:
    """Return the RGB picture after `operations` random operations; equal generators give equal bytes."""
    if not 0 <= magnitude <= FULL_MAGNITUDE:
        raise ValueError(f"magnitude must be from 0 to {FULL_MAGNITUDE}, not {magnitude}")
    strength = magnitude / FULL_MAGNITUDE
    for _ in range(operations):
        operation = rng.choice(OPERATIONS)
        sign = rng.choice((-1, 1)) if operation.signed else 1
        image = operation.apply(image, sign * strength)
    return image
