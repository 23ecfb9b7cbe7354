"""Parse a predict request: pictures and options from a multipart form, or base64 in JSON."""

import binascii
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from fastapi import Request
from fastapi.exceptions import RequestValidationError

from alacarte.api.predictions import PredictOptions, PredictRequest
from registry.errors import Invalid
from service.http.json_body import parse_json_body, validate_body
from service.http.media_types import MULTIPART
from service.http.multipart import PartStart, parse_boundary, parse_multipart
from service.http.request_context import RequestContext

IMAGE = "image"  # the multipart field with a picture; repeated for more
_REPEATABLE = frozenset({"sources"})


@dataclass(frozen=True)
class OipOutput:
    """What a response of the Open Inference Protocol repeats of its request."""

    request_id: str | None
    tensors: tuple[str, ...]  # requested names


@dataclass(frozen=True)
class PredictionQuery:
    """Pictures, the options of their prediction, and the format of the response."""

    pictures: tuple[bytes, ...]
    options: PredictOptions
    oip: OipOutput | None = None  # None: the JSON of /predict


async def parse_predict_request(request: Request, context: RequestContext) -> PredictionQuery:
    """Return the query of a `/predict` request, with at least one picture."""
    max_pictures = context.state.settings.max_pictures
    if context.media_type == MULTIPART:
        parts = parse_multipart(request.stream(), parse_boundary(request.headers["content-type"]))
        return await _parse_form(parts, max_pictures)
    body = await request.body()
    return await context.state.thread_pool.run(lambda: _parse_json(body, max_pictures))


def decode_base64(texts: Sequence[str], max_pictures: int) -> tuple[bytes, ...]:
    """Return the pictures that are encoded in the texts."""
    check_picture_count(len(texts), max_pictures)
    pictures = []
    for number, text in enumerate(texts, 1):
        try:
            pictures.append(b64decode(text, validate=True))
        except (binascii.Error, ValueError) as error:
            raise Invalid(f"picture {number} of {len(texts)} is not valid base64") from error
    return tuple(pictures)


def check_picture_count(count: int, max_pictures: int) -> None:
    """Raise Invalid for more pictures than a request may have."""
    if count > max_pictures:
        raise Invalid(f"a request has at most {max_pictures} pictures: send several requests")


def _parse_json(body: bytes, max_pictures: int) -> PredictionQuery:
    document = parse_json_body(PredictRequest, body)
    options = PredictOptions.model_validate(document.model_dump(exclude={"images"}))
    return PredictionQuery(decode_base64(document.images, max_pictures), options)


async def _parse_form(parts: AsyncIterator[PartStart | bytes], max_pictures: int) -> PredictionQuery:
    pictures: list[bytearray] = []
    fields: dict[str, list[bytearray]] = {}
    current = bytearray()
    async for event in parts:
        if not isinstance(event, PartStart):
            current += event
            continue
        current = bytearray()
        if event.name == IMAGE:
            check_picture_count(len(pictures) + 1, max_pictures)
            pictures.append(current)
        else:
            fields.setdefault(event.name, []).append(current)
    if not pictures:
        problem = {"loc": ("body", IMAGE), "msg": "at least one file is required in this field", "type": "missing"}
        raise RequestValidationError([problem])
    options = validate_body(PredictOptions, {name: _field_value(name, values) for name, values in fields.items()})
    return PredictionQuery(tuple(bytes(picture) for picture in pictures), options)


def _field_value(name: str, values: list[bytearray]) -> str | list[str]:
    texts = [value.decode("utf-8", "replace") for value in values]
    # A field that is repeated by mistake stays a list, which validation refuses.
    return texts if name in _REPEATABLE or len(texts) > 1 else texts[0]
