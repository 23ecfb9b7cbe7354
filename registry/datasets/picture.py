"""Decodes untrusted pictures completely, within a pixel limit, with known formats only."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

from registry.datasets.member_names import describe_error
from registry.errors import InvalidPicture

# Pillow reads many more, among them some that start other programs (EPS).
PICTURE_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "JPEG2000", "PPM")
NOT_A_PICTURE = f"not a picture in a supported format ({', '.join(PICTURE_FORMATS)})"

# Python's warning filters are global: one thread at a time changes and restores them.
_warning_filters = threading.Lock()


@contextmanager
def _strict_warnings() -> Iterator[None]:
    """Ignore decoders' warnings, but raise Pillow's warning of a decompression bomb."""
    with _warning_filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def decode_picture(file: BinaryIO, max_pixels: int) -> Image.Image:
    """Return the fully decoded picture in RGB, the first frame of an animation; InvalidPicture says why not."""
    with _strict_warnings():
        try:
            with Image.open(file, formats=PICTURE_FORMATS) as image:
                width, height = image.size
                if width * height > max_pixels:
                    raise InvalidPicture(f"{width} x {height} pixels are more than {max_pixels}")
                if getattr(image, "default_image", False):
                    image.seek(1)  # an APNG may begin with a fallback picture that is no frame of it
                image.load()
                return image.convert("RGB")
        except InvalidPicture:
            raise
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            raise InvalidPicture("more pixels than Pillow decodes without a warning") from error
        except UnidentifiedImageError as error:
            raise InvalidPicture(NOT_A_PICTURE) from error
        except Exception as error:  # decoders raise almost anything on malicious bytes
            raise InvalidPicture(f"cannot be decoded: {describe_error(error)}") from error


def is_picture(file: BinaryIO) -> bool:
    """Whether the header is a picture's; the rest is not read."""
    with _strict_warnings():
        try:
            with Image.open(file, formats=PICTURE_FORMATS):
                return True
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            return True
        except Exception:  # as above
            return False
