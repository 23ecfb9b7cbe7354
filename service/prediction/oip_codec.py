"""Requests and responses of the Open Inference Protocol. Pictures are base64 in the JSON, or binary data after it."""

import math
import struct
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from alacarte.api.oip import InferInput, InferOutput, InferRequest, InferResponse
from alacarte.api.predictions import PredictOptions
from registry.errors import Invalid
from service.http.json_body import parse_json_body
from service.prediction.request import OipOutput, PredictionQuery, check_picture_count, decode_base64
from service.prediction.response import PredictionResult, top_labels

VERSION = "1"
OUTPUTS = ("label", "score")
IMAGE = "image"
BYTES = "BYTES"
BINARY_SIZE = "binary_data_size"
OPTIONS = frozenset({"sources", "release", "composition", "weighting", "top_k"})
_LENGTH = struct.Struct("<I")


def parse_infer_request(
    body: bytes, header_length: int | None, max_pictures: int
) -> tuple[InferRequest, tuple[bytes, ...]]:
    """Return the request and its pictures; with a header length, binary data follows the JSON."""
    header = body if header_length is None else body[:header_length]
    binary = b"" if header_length is None else body[header_length:]
    if header_length is not None and header_length > len(body):
        raise Invalid(f"the header length is {header_length}, but the body has only {len(body)} bytes")
    request = parse_json_body(InferRequest, header)
    if [tensor.name for tensor in request.inputs] != [IMAGE]:
        raise Invalid(f"the request must have exactly one input, {IMAGE!r}")
    image = request.inputs[0]
    if image.datatype != BYTES:
        raise Invalid(f"the datatype of {IMAGE!r} must be {BYTES}, not {image.datatype[:20]!r}")
    pictures = _read_pictures(image, binary, max_pictures)
    count = math.prod(image.shape)
    if not pictures or count != len(pictures):
        raise Invalid(f"the shape of {IMAGE!r} means {count} pictures, but there are {len(pictures)}")
    return request, pictures


def to_query(request: InferRequest, pictures: tuple[bytes, ...], task: str) -> PredictionQuery:
    """Return the equivalent query; raise Invalid for unknown outputs and invalid parameters."""
    outputs = OUTPUTS if request.outputs is None else tuple(output.name for output in request.outputs)
    if unknown := [name for name in outputs if name not in OUTPUTS]:
        raise Invalid(f"there is no output {unknown[0][:100]!r}: choose from {' and '.join(OUTPUTS)}")
    parameters: dict[str, Any] = {name: value for name, value in request.parameters.items() if name in OPTIONS}
    if isinstance(parameters.get("sources"), str):  # the protocol has no lists as parameters
        parameters["sources"] = [name.strip() for name in parameters["sources"].split(",")]
    try:
        options = PredictOptions.model_validate({"top_k": 1, **parameters, "task": task})
    except ValidationError as error:
        first = error.errors()[0]
        raise Invalid(f"the parameter {first['loc'][0]!s}: {first['msg']}") from error
    return PredictionQuery(pictures, options, OipOutput(request.id, outputs))


def serialize_inference(result: PredictionResult, output: OipOutput, top_k: int) -> bytes:
    """Return the response body of `infer`."""
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


def _read_pictures(image: InferInput, binary: bytes, max_pictures: int) -> tuple[bytes, ...]:
    size = image.parameters.get(BINARY_SIZE)
    if size is None:
        return decode_base64(list(_flatten(image.data or [], len(image.shape))), max_pictures)
    if not isinstance(size, int) or size != len(binary):
        raise Invalid(f"{BINARY_SIZE} must be {len(binary)}, the size of the data after the JSON")
    pictures = tuple(_split(binary))
    check_picture_count(len(pictures), max_pictures)
    return pictures


def _flatten(data: list[Any], depth: int) -> Iterator[str]:
    """Yield the strings of data that is flat or nested like the shape."""
    for value in data:
        if isinstance(value, list) and depth > 1:
            yield from _flatten(value, depth - 1)
        elif isinstance(value, str):
            yield value
        else:
            raise Invalid(f"the data of {IMAGE!r} must be pictures in base64")


def _split(data: bytes) -> Iterator[bytes]:
    """Yield the elements of a binary tensor, each of which follows its length."""
    offset = 0
    while offset < len(data):
        if offset + _LENGTH.size > len(data):
            raise Invalid("the binary data is truncated")
        (length,) = _LENGTH.unpack_from(data, offset)
        offset += _LENGTH.size
        if offset + length > len(data):
            raise Invalid("the binary data is truncated")
        yield data[offset : offset + length]
        offset += length
