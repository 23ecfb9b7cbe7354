"""Small valid files of every accepted kind, as input for damage."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from functools import cache

from PIL import Image

from registry.datasets.picture import PICTURE_FORMATS
from tests.service.deployment import LABELS, prompt_bytes

PACKINGS = ("zip", "zip stored", "tar", "gz", "bz2", "xz")


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@cache
def pictures() -> tuple[bytes, ...]:
    """Return a picture in every accepted format and in the variants that decoders treat differently."""
    colours = Image.linear_gradient("L").resize((12, 9)).convert("RGB")
    grey, mask = colours.convert("L"), colours.convert("1")
    palette, clear = colours.convert("P"), colours.convert("RGBA")
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated
    return (
        *(saved(colours, kind) for kind in PICTURE_FORMATS),
        saved(colours, "JPEG", progressive=True, exif=exif),
        saved(colours.convert("CMYK"), "JPEG"),
        saved(grey, "JPEG", optimize=True),
        saved(palette, "PNG", transparency=0),
        saved(grey.convert("I;16"), "PNG"),
        saved(clear, "PNG", exif=exif),
        saved(mask, "PNG"),
        saved(colours, "PNG", save_all=True, append_images=[clear.convert("RGB")], default_image=True),
        saved(colours, "GIF", save_all=True, append_images=[colours.rotate(90)]),
        saved(palette, "GIF", transparency=3),
        saved(clear, "WEBP", lossless=True),
        saved(colours, "WEBP", save_all=True, append_images=[colours.rotate(90)]),
        *(saved(colours, "TIFF", compression=kind) for kind in ("tiff_lzw", "jpeg", "tiff_adobe_deflate", "packbits")),
        saved(mask, "TIFF", compression="group4"),
        saved(grey.convert("F"), "TIFF"),
        saved(palette, "BMP"),
        saved(mask, "PPM"),
        saved(grey, "PPM"),
    )


def packed(files: Mapping[str, bytes], packing: str) -> bytes:
    file = io.BytesIO()
    if packing.startswith("zip"):
        method = zipfile.ZIP_STORED if packing == "zip stored" else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(file, "w", method) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        compression = "" if packing == "tar" else packing
        with tarfile.open(fileobj=file, mode=f"w:{compression}") as tar:  # type: ignore[call-overload]
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


@cache
def collections() -> tuple[Mapping[str, bytes], ...]:
    """Return the files of a dataset in every accepted layout."""
    first, second, third = pictures()[:3]
    return (
        {"cat/1.jpg": first, "cat/2.png": second, "dog/1.webp": third},
        {"top/cat/1.jpg": first, "top/dog/1.png": second, "top/README.md": b"hello"},
        {"1.jpg": first, "1.cls": b"cat", "2.png": second, "2.cls": b"dog"},
        {"1.jpg": first, "1.json": b'{"label": "cat"}', "2.png": second, "2.json": b'{"label": 7}'},
        {"labels.csv": b"file,label\na.jpg,cat\nb.png,dog\n", "a.jpg": first, "b.png": second},
        {"labels.csv": b'path;class\n"x/a.jpg";"cat ""s"\n', "x/a.jpg": first},
    )


@cache
def archives() -> tuple[bytes, ...]:
    return tuple(packed(files, packing) for files in collections() for packing in PACKINGS)


@cache
def prompts() -> tuple[bytes, ...]:
    return prompt_bytes(), prompt_bytes(1, LABELS[:2])
