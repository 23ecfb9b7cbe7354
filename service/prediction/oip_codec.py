"""Pictures in the tensors of the Open Inference Protocol: base64 in JSON, or binary behind it."""

import math
import struct
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from registry.errors import Invalid
from service.questions import Asking, checked, decoded, parsed
from service.schemas.oip import InferAsked, InferInput
from service.schemas.predictions import Wish

IMAGE = "image"
BYTES = "BYTES"
BINARY_SIZE = "binary_data_size"
WISHES = frozenset({"sources", "release", "composition", "weighting", "top_k"})
_LENGTH = struct.Struct("<I")


def read_infer(body: bytes, header_length: int | None, max_pictures: int) -> tuple[InferAsked, tuple[bytes, ...]]:
    """The request and its pictures; with a header length, what stands behind the JSON is binary data."""
    header = body if header_length is None else body[:header_length]
    behind = b"" if header_length is None else body[header_length:]
    if header_length is not None and header_length > len(body):
        raise Invalid("the header length is more than the request has")
    asked = checked(InferAsked, lambda: parsed(header))
    if [found.name for found in asked.inputs] != [IMAGE]:
        raise Invalid(f"one input is wanted, {IMAGE!r}")
    image = asked.inputs[0]
    if image.datatype != BYTES:
        raise Invalid(f"the input {IMAGE!r} holds {BYTES}, not {image.datatype[:20]!r}")
    pictures = _pictures(image, behind, max_pictures)
    count = math.prod(image.shape)
    if not pictures or count != len(pictures):
        raise Invalid(f"the shape of {IMAGE!r} says {count} pictures, and there are {len(pictures)}")
    return asked, pictures


def asking_of(asked: InferAsked, pictures: tuple[bytes, ...], task: str) -> Asking:
    """The question that the request is."""
    said: dict[str, Any] = {name: value for name, value in asked.parameters.items() if name in WISHES}
    if isinstance(said.get("sources"), str):  # parameters hold no lists
        said["sources"] = [name.strip() for name in said["sources"].split(",")]
    try:
        return Asking(pictures, Wish.model_validate({"top_k": 1, **said, "task": task}))
    except ValidationError as error:
        first = error.errors()[0]
        raise Invalid(f"the parameter {first['loc'][0]!s}: {first['msg']}") from error


def _pictures(image: InferInput, behind: bytes, max_pictures: int) -> tuple[bytes, ...]:
    size = image.parameters.get(BINARY_SIZE)
    if size is None:
        texts = list(_flat(image.data or [], len(image.shape)))
        return decoded(texts, max_pictures)
    if not isinstance(size, int) or size != len(behind):
        raise Invalid(f"{BINARY_SIZE} is not the size of what stands behind the JSON")
    pictures = tuple(_split(behind))
    if len(pictures) > max_pictures:
        raise Invalid(f"one request holds at most {max_pictures} pictures: send several requests")
    return pictures


def _flat(data: list[Any], depth: int) -> Iterator[str]:
    """The texts in data that is nested as deep as the shape, or not at all."""
    for value in data:
        if isinstance(value, list) and depth > 1:
            yield from _flat(value, depth - 1)
        elif isinstance(value, str):
            yield value
        else:
            raise Invalid(f"the data of {IMAGE!r} are pictures in base64")


def _split(data: bytes) -> Iterator[bytes]:
    """The elements of a binary tensor: each has its length before it."""
    place = 0
    while place < len(data):
        if place + _LENGTH.size > len(data):
            raise Invalid("the binary data is cut short")
        (length,) = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size
        if place + length > len(data):
            raise Invalid("the binary data is cut short")
        yield data[place : place + length]
        place += length
