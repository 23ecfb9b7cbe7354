"""Whether bytes are a picture: found out by decoding all of it, within bounds, with known formats only."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

from registry.datasets.member_names import describe_error
from registry.errors import InvalidPicture

# Pillow knows many more, among them some that start other programs (EPS).
PICTURE_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "JPEG2000", "PPM")
NOT_A_PICTURE = f"not a picture in a format that is read here ({', '.join(PICTURE_FORMATS)})"

# Python's warning filters belong to the process: threads change and restore them one after the other.
_filters = threading.Lock()


@contextmanager
def _quiet() -> Iterator[None]:
    """Decoders' complaints go unheard; but Pillow's warning of a bomb is raised."""
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def decode_picture(file: BinaryIO, max_pixels: int) -> Image.Image:
    """The picture in RGB, wholly decoded (the first of an animation); else PictureUnreadable says why."""
    with _quiet():
        try:
            with Image.open(file, formats=PICTURE_FORMATS) as image:
                width, height = image.size
                if width * height > max_pixels:
                    raise InvalidPicture(f"{width} x {height} pixels are more than {max_pixels}")
                if getattr(image, "default_image", False):
                    image.seek(1)  # the first picture of an APNG may be for those who know no animations
                image.load()
                return image.convert("RGB")
        except InvalidPicture:
            raise
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            raise InvalidPicture("more pixels than Pillow decodes without a warning") from error
        except UnidentifiedImageError as error:
            raise InvalidPicture(NOT_A_PICTURE) from error
        except Exception as error:  # decoders raise almost anything over bytes that were made to hurt
            raise InvalidPicture(f"cannot be decoded: {describe_error(error)}") from error


def is_picture(file: BinaryIO) -> bool:
    """Whether the first bytes are a picture's; the rest is not looked at."""
    with _quiet():
        try:
            with Image.open(file, formats=PICTURE_FORMATS):
                return True
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            return True
        except Exception:  # as above
            return False
