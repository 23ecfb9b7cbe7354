"""Parse request bodies that a route reads itself, with the same validation errors as those that FastAPI reads."""

import json
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from registry.errors import Invalid
from service.errors import MalformedBody

MAX_VALUES = 100_000  # in one document: parsing holds the GIL

M = TypeVar("M", bound=BaseModel)


def parse_json_body(model: type[M], body: bytes) -> M:
    """Return the JSON document as the model; Invalid, MalformedBody or RequestValidationError if it is not one."""
    if body.count(b",") > MAX_VALUES:
        raise Invalid(f"a JSON document has at most {MAX_VALUES} values: send several requests")
    try:
        return validate_body(model, json.loads(body))
    except (ValueError, RecursionError) as error:
        raise MalformedBody("the body is not valid JSON") from error


def validate_body(model: type[M], document: Any) -> M:  # Any: parsed JSON, or the fields of a form
    """Return the document as the model, or raise RequestValidationError."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in problems]) from error
