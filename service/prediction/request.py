"""From a request to pictures and what is asked of them: multipart files, or base64 in JSON."""

import binascii
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from alacarte.api.predictions import PredictOptions, PredictRequest
from registry.errors import Invalid
from service.concurrency import ThreadPool
from service.errors import BodyUnreadable
from service.http.multipart import MULTIPART, PartStart, parse_boundary, parse_media_type, parse_multipart

MAX_VALUES = 100_000  # in one document: parsing more would keep everybody waiting
IMAGE = "image"  # the field of a multipart question that holds a picture; repeated for more
_MANY = frozenset({"sources"})  # fields that may be repeated

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class OipOutput:
    """What a response of the Open Inference Protocol repeats of its request."""

    request_id: str | None
    tensors: tuple[str, ...]  # names, as asked for


@dataclass(frozen=True)
class PredictionQuery:
    """Pictures, the options of their prediction, and the format of the response."""

    pictures: tuple[bytes, ...]
    options: PredictOptions
    oip: OipOutput | None = None  # None: the JSON of /predict


async def parse_predict_request(request: Request, pool: ThreadPool, max_pictures: int) -> PredictionQuery:
    """What the request asks, with at least one picture."""
    content_type = request.headers.get("content-type", "")
    if parse_media_type(content_type) == MULTIPART:
        return await _from_parts(parse_multipart(request.stream(), parse_boundary(content_type)), max_pictures)
    body = await request.body()
    return await pool.run(lambda: _from_json(body, max_pictures))


def parse_json(body: bytes) -> Any:  # Any: whatever JSON has
    """The document in a body; ValueError or RecursionError if there is none."""
    if body.count(b",") > MAX_VALUES:
        raise Invalid(f"one document holds at most {MAX_VALUES} values: send several")
    return json.loads(body)


def validate_body(model: type[M], read: Callable[[], Any]) -> M:  # Any: whatever JSON or a form has
    """The document as the model has it; a fault is told as the framework tells those of other bodies."""
    try:
        return model.model_validate(read())
    except ValidationError as error:
        found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False, include_input=False)]
        raise RequestValidationError(found) from error
    except (ValueError, RecursionError) as error:
        raise BodyUnreadable("the body is no JSON") from error


def decode_base64(texts: Sequence[str], max_pictures: int) -> tuple[bytes, ...]:
    """The pictures that texts in base64 hold."""
    if len(texts) > max_pictures:
        raise _too_many(max_pictures)
    pictures = []
    for number, text in enumerate(texts):
        try:
            pictures.append(b64decode(text, validate=True))
        except (binascii.Error, ValueError) as error:
            raise Invalid(f"picture {number} is not in base64") from error
    return tuple(pictures)


def _from_json(body: bytes, max_pictures: int) -> PredictionQuery:
    question = validate_body(PredictRequest, lambda: parse_json(body))
    wish = PredictOptions.model_validate(question.model_dump(exclude={"images"}))
    return PredictionQuery(decode_base64(question.images, max_pictures), wish)


async def _from_parts(parts: AsyncIterator[PartStart | bytes], max_pictures: int) -> PredictionQuery:
    pictures: list[bytearray] = []
    fields: dict[str, list[bytearray]] = {}
    current = bytearray()
    async for event in parts:
        if not isinstance(event, PartStart):
            current += event
            continue
        current = bytearray()
        if event.name != IMAGE:
            fields.setdefault(event.name, []).append(current)
        elif len(pictures) == max_pictures:
            raise _too_many(max_pictures)
        else:
            pictures.append(current)
    if not pictures:
        fault = {"loc": ("body", IMAGE), "msg": "a file in this field is wanted, or several", "type": "missing"}
        raise RequestValidationError([fault])
    wish = validate_body(PredictOptions, lambda: {name: _value(name, found) for name, found in fields.items()})
    return PredictionQuery(tuple(bytes(picture) for picture in pictures), wish)


def _value(name: str, found: list[bytearray]) -> str | list[str]:
    texts = [value.decode("utf-8", "replace") for value in found]
    # A field that is repeated by mistake stays a list, and is refused as one.
    return texts if name in _MANY or len(texts) > 1 else texts[0]


def _too_many(max_pictures: int) -> Invalid:
    return Invalid(f"one request holds at most {max_pictures} pictures: send several requests")
