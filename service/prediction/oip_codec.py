"""Requests and responses of the Open Inference Protocol. Pictures are base64 in the JSON, or binary data behind it."""

import math
import struct
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from alacarte.api.oip import InferInput, InferOutput, InferRequest, InferResponse
from alacarte.api.predictions import PredictOptions
from registry.errors import Invalid
from service.prediction.request import OipOutput, PredictionQuery, decode_base64, parse_json, validate_body
from service.prediction.response import PredictionResult, top_labels

VERSION = "1"
OUTPUTS = ("label", "score")
IMAGE = "image"
BYTES = "BYTES"
BINARY_SIZE = "binary_data_size"
WISHES = frozenset({"sources", "release", "composition", "weighting", "top_k"})
_LENGTH = struct.Struct("<I")


def read_infer(body: bytes, header_length: int | None, max_pictures: int) -> tuple[InferRequest, tuple[bytes, ...]]:
    """The request and its pictures; with a header length, what stands behind the JSON is binary data."""
    header = body if header_length is None else body[:header_length]
    behind = b"" if header_length is None else body[header_length:]
    if header_length is not None and header_length > len(body):
        raise Invalid("the header length is more than the request has")
    asked = validate_body(InferRequest, lambda: parse_json(header))
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


def to_query(asked: InferRequest, pictures: tuple[bytes, ...], task: str) -> PredictionQuery:
    """The request as the query that it stands for. Invalid for outputs or parameters that do not exist."""
    wanted = OUTPUTS if asked.outputs is None else tuple(output.name for output in asked.outputs)
    if unknown := [name for name in wanted if name not in OUTPUTS]:
        raise Invalid(f"there is no output {unknown[0][:100]!r}: {' and '.join(OUTPUTS)} are there")
    said: dict[str, Any] = {name: value for name, value in asked.parameters.items() if name in WISHES}
    if isinstance(said.get("sources"), str):  # parameters hold no lists
        said["sources"] = [name.strip() for name in said["sources"].split(",")]
    try:
        options = PredictOptions.model_validate({"top_k": 1, **said, "task": task})
    except ValidationError as error:
        first = error.errors()[0]
        raise Invalid(f"the parameter {first['loc'][0]!s}: {first['msg']}") from error
    return PredictionQuery(pictures, options, OipOutput(asked.id, wanted))


def serialize_inference(result: PredictionResult, output: OipOutput, top_k: int) -> bytes:
    """The response body of `infer`."""
    ranked = [top_labels(answer, top_k) for answer in result.answers]
    shape = [len(ranked)] if top_k == 1 else [len(ranked), min(len(labels) for labels in ranked)]
    tensors = [
        InferOutput(name="label", datatype="BYTES", shape=shape, data=[one.label for row in ranked for one in row]),
        InferOutput(name="score", datatype="FP32", shape=shape, data=[one.score for row in ranked for one in row]),
    ]
    response = InferResponse(
        model_name=result.used.task.name,
        model_version=VERSION,
        id=output.request_id,
        parameters={"set_digest": result.answers[0].set_digest},
        outputs=[tensor for tensor in tensors if tensor.name in output.tensors],
    )
    return response.model_dump_json(exclude_none=True).encode()


def _pictures(image: InferInput, behind: bytes, max_pictures: int) -> tuple[bytes, ...]:
    size = image.parameters.get(BINARY_SIZE)
    if size is None:
        texts = list(_flat(image.data or [], len(image.shape)))
        return decode_base64(texts, max_pictures)
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
