"""Decode a picture and turn it into the tensor that a backbone receives; the same in training and in serving."""

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
MAX_ASPECT = 16  # a picture with a longer side relative to the shorter one is not resized as a whole

# Formats of cameras, browsers and scanners. Other plugins of Pillow are not used: some start programs (EPS), and the
# rest are not needed.
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
    """Decode a picture to RGB, upright and on white; PictureDecodeError gives the reason if it cannot be decoded."""
    name = str(source) if isinstance(source, Path) else "the picture"
    try:
        with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as stream:
            image = _identify(stream)
            width, height = image.size
            if width * height > max_pixels:
                raise PictureDecodeError(f"{width} x {height} pixels are more than the {max_pixels:,} allowed")
            if getattr(image, "default_image", False):
                image.seek(1)  # the first frame of such an APNG is only a fallback
            image.load()
            # After load(): a PNG may have its EXIF behind the pixels.
            return _rotate_upright(_to_rgb(image), image)
    except PictureDecodeError as error:
        raise PictureDecodeError(f"{name} cannot be read: {error}") from None
    except Exception as error:  # decoders raise any error on invalid bytes
        reason = str(error) or type(error).__name__
        raise PictureDecodeError(f"{name} cannot be read: {reason}") from error


def _identify(stream: IO[bytes]) -> Image.Image:
    """Open the picture without decoding it.

    Unlike `Image.open`, it does not warn about large pictures before their size can be checked; a warning cannot be
    suppressed for one thread only.
    """
    Image.init()
    prefix = stream.read(16)
    if not prefix:
        raise PictureDecodeError("it is empty")
    for name in FORMATS:
        factory, accepts = Image.OPEN.get(name, (None, None))
        if factory is None or (accepts is not None and accepts(prefix) is not True):
            continue
        stream.seek(0)
        try:
            return factory(stream, "")
        except (SyntaxError, IndexError, TypeError, struct.error):  # not a picture of this format
            continue
    raise PictureDecodeError(f"it is damaged, or not a picture in one of the formats {', '.join(FORMATS)}")


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


def _rotate_upright(picture: Image.Image, opened: Image.Image) -> Image.Image:
    try:
        orientation = opened.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # damaged EXIF: leave the picture as stored, as viewers do
        return picture
    method = _UPRIGHT.get(orientation) if isinstance(orientation, int) else None
    return picture if method is None else picture.transpose(method)


@dataclass(frozen=True)
class Preprocessing:
    """How a backbone's pictures are resized, cropped and normalised."""

    size: int
    crop_pct: float
    mean: Channels
    std: Channels
    interpolation: str = "bicubic"
    crop_mode: Literal["center", "squash"] = "center"

    def __post_init__(self) -> None:
        if self.size < 1 or not 0 < self.crop_pct <= 1:
            raise BackboneUnsupported(
                f"preprocessing needs a size of at least 1 and a crop in (0, 1], not {self.size} and {self.crop_pct}"
            )
        if self.interpolation not in _RESAMPLING or self.crop_mode not in ("center", "squash"):
            raise BackboneUnsupported(f"preprocessing {self.interpolation}/{self.crop_mode} is not supported")

    def fit(self, image: Image.Image) -> Image.Image:
        """Return the centre of the picture, `size` x `size`, as timm's evaluation transform does."""
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
        if max(wide, high) <= MAX_ASPECT * short:
            return image.resize((wide, high), resampling).crop((left, top, right, bottom))
        # A picture of 1 x 50,000,000 would need too much memory: resample only the crop. Pillow may then swap the order
        # of its two passes, which rounds differently, so only do it here.
        across, down = width / wide, height / high
        box = (left * across, top * down, min(right * across, width), min(bottom * down, height))
        return image.resize((self.size, self.size), resampling, box=box)

    def tensor(self, image: Image.Image) -> Tensor:
        """Return the fitted picture as (3, size, size) float32, scaled and normalised."""
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
        """Return plain JSON values in a fixed order, which are part of a backbone's identity."""
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
    """Return the normalised value of each of the 256 levels, per channel, (3, 256), rounded as torchvision rounds."""
    levels = np.arange(256, dtype=np.float32) / np.float32(255)
    return np.stack([(levels - np.float32(m)) / np.float32(s) for m, s in zip(mean, std, strict=True)])


def preprocessing_of(model: nn.Module, size: int | None = None) -> Preprocessing:
    """Return the preprocessing that timm has for the model, at `size` instead of the model's own."""
    import timm.data  # takes seconds, and is not needed to preprocess pictures

    config = timm.data.resolve_model_data_config(model)
    return Preprocessing(
        size=size or config["input_size"][-1],
        crop_pct=float(config["crop_pct"]),
        mean=_channels(config["mean"]),
        std=_channels(config["std"]),
        interpolation=config["interpolation"],
        crop_mode=config["crop_mode"],
    )


def _channels(values: tuple[float, ...]) -> Channels:
    red, green, blue = (float(value) for value in values)
    return red, green, blue
