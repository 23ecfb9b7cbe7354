"""The one way a picture becomes numbers, in training and in serving alike."""

import io
import struct
from dataclasses import dataclass
from functools import lru_cache
from math import floor
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ExifTags, Image
from torch import Tensor, nn

from alacarte.prompting.errors import BackboneUnsupported, PictureDecodeError

MAX_PIXELS = 50_000_000
LONGEST = 16  # times the shorter side: beyond it a picture is not resized as a whole

# What cameras, browsers and scanners write. Other plugins of Pillow stay shut: they start programs (EPS) or
# read what nobody uploads.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "JPEG2000", "PPM")

Channels = tuple[float, float, float]

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_RESAMPLING = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


def decode(source: bytes | Path, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """The picture as a person would see it, in RGB; `PictureDecodeError` says why there is none."""
    name = str(source) if isinstance(source, Path) else "the picture"
    try:
        with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as stream:
            image = _identify(stream)
            width, height = image.size
            if width * height > max_pixels:
                raise PictureDecodeError(f"{width} x {height} pixels are more than the {max_pixels:,} allowed")
            if getattr(image, "default_image", False):
                image.seek(1)  # an APNG whose first picture is for those who know no animations
            image.load()
            # PNG may carry its EXIF behind the pixels: ask only now.
            return _turn_upright(_to_rgb(image), image)
    except PictureDecodeError as error:
        raise PictureDecodeError(f"{name} cannot be read: {error}") from None
    except Exception as error:  # a decoder that is fed garbage raises anything
        reason = str(error) or type(error).__name__
        raise PictureDecodeError(f"{name} cannot be read: {reason}") from error


def _identify(stream: IO[bytes]) -> Image.Image:
    """The opened, not yet decoded picture.

    `Image.open` does the same, and warns about large sizes before anyone can look at them; a warning cannot
    be held back for one thread alone.
    """
    Image.init()
    prefix = stream.read(16)
    if not prefix:
        raise PictureDecodeError("it is empty")
    for known in FORMATS:
        factory, accepts = Image.OPEN.get(known, (None, None))
        if factory is None or (accepts is not None and accepts(prefix) is not True):
            continue
        stream.seek(0)
        try:
            return factory(stream, "")
        except (SyntaxError, IndexError, TypeError, struct.error):  # how plugins say "not mine"
            continue
    raise PictureDecodeError(f"it is no picture in any of the formats {', '.join(FORMATS)}, or is damaged")


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "I" or image.mode.startswith("I;16"):
        # Pillow would clip at 255; 65535 is white in every 16-bit format.
        return _from_grey(np.asarray(image), white=65535)
    if image.mode == "F":
        grey = np.nan_to_num(np.asarray(image), posinf=0.0, neginf=0.0)
        return _from_grey(grey, white=next((w for w in (1, 255) if grey.max() <= w), 65535))
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image.convert("RGB")


def _from_grey(grey: NDArray[Any], white: int) -> Image.Image:
    levels = np.rint(grey.astype(np.float32) * (255 / white)).clip(0, 255).astype(np.uint8)
    return Image.fromarray(levels).convert("RGB")


def _turn_upright(picture: Image.Image, opened: Image.Image) -> Image.Image:
    try:
        orientation = opened.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # damaged EXIF: viewers show such a picture as it is stored
        return picture
    turn = _UPRIGHT.get(orientation) if isinstance(orientation, int) else None
    return picture if turn is None else picture.transpose(turn)


@dataclass(frozen=True)
class Preprocessing:
    """From a decoded picture to what a backbone was trained to see."""

    size: int
    crop_pct: float
    mean: Channels
    std: Channels
    interpolation: str = "bicubic"
    crop_mode: Literal["center", "squash"] = "center"

    def __post_init__(self) -> None:
        if self.size < 1 or not 0 < self.crop_pct <= 1:
            raise BackboneUnsupported(f"no picture has size {self.size} and crop {self.crop_pct}")
        if self.interpolation not in _RESAMPLING or self.crop_mode not in ("center", "squash"):
            raise BackboneUnsupported(f"preprocessing {self.interpolation}/{self.crop_mode} is not supported")

    def fit(self, image: Image.Image) -> Image.Image:
        """The centre of the picture, `size` x `size`, as timm's evaluation transform cuts it."""
        short = floor(self.size / self.crop_pct)
        width, height = image.size
        if self.crop_mode == "squash":
            wide, high = short, short
        elif width <= height:
            wide, high = short, int(short * height / width)
        else:
            wide, high = int(short * width / height), short
        left, top = round((wide - self.size) / 2), round((high - self.size) / 2)
        right, bottom = left + self.size, top + self.size
        resampling = _RESAMPLING[self.interpolation]
        if max(wide, high) <= LONGEST * short:
            return image.resize((wide, high), resampling).crop((left, top, right, bottom))
        # A picture of 1 x 50,000,000 would grow beyond all memory: resample only what the crop keeps. Pillow
        # may then take its two passes in the other order, which rounds differently; so only where it must.
        across, down = width / wide, height / high
        box = (left * across, top * down, min(right * across, width), min(bottom * down, height))
        return image.resize((self.size, self.size), resampling, box=box)

    def tensor(self, image: Image.Image) -> Tensor:
        """The fitted picture as (3, size, size) float32, scaled and normalised."""
        if image.mode != "RGB" or image.size != (self.size, self.size):
            raise PictureDecodeError(f"expected RGB of {self.size} x {self.size}, got {image.mode} {image.size}")
        pixels = np.asarray(image)  # (size, size, 3)
        numbers = np.empty((3, self.size, self.size), dtype=np.float32)
        for channel, table in enumerate(_tables(self.mean, self.std)):
            np.take(table, pixels[:, :, channel], out=numbers[channel], mode="clip")
        return torch.from_numpy(numbers)

    def __call__(self, image: Image.Image) -> Tensor:
        return self.tensor(self.fit(image))

    def describe(self) -> dict[str, Any]:  # Any: JSON has no narrower name
        """Plain JSON values in a fixed order: they are part of a backbone's identity."""
        return {
            "size": self.size,
            "crop_pct": self.crop_pct,
            "crop_mode": self.crop_mode,
            "mean": list(self.mean),
            "std": list(self.std),
            "interpolation": self.interpolation,
        }


@lru_cache(maxsize=16)
def _tables(mean: Channels, std: Channels) -> NDArray[np.float32]:
    """What each of the 256 levels becomes, per channel: (3, 256), rounded as torchvision rounds."""
    levels = np.arange(256, dtype=np.float32) / np.float32(255)
    return np.stack([(levels - np.float32(m)) / np.float32(s) for m, s in zip(mean, std, strict=True)])


def preprocessing_of(model: nn.Module, size: int | None = None) -> Preprocessing:
    """What timm says about the pictures that the model was trained on, at `size` instead of its own."""
    import timm.data  # takes seconds, and whoever only prepares pictures needs none of it

    facts = timm.data.resolve_model_data_config(model)
    return Preprocessing(
        size=size or facts["input_size"][-1],
        crop_pct=float(facts["crop_pct"]),
        mean=_channels(facts["mean"]),
        std=_channels(facts["std"]),
        interpolation=facts["interpolation"],
        crop_mode=facts["crop_mode"],
    )


def _channels(values: tuple[float, ...]) -> Channels:
    red, green, blue = (float(value) for value in values)
    return red, green, blue
