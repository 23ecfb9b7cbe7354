"""The OpenAPI document: the responses that routes share, and the models of bodies that routes parse themselves."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from alacarte.api.base import ProblemResponse
from alacarte.api.oip import InferRequest
from alacarte.api.predictions import PredictRequest
from alacarte.api.sources import SourceCreate
from service.http.media_types import JSON, PROBLEM
from service.http.problems import title_of

SELF_PARSED = (ProblemResponse, PredictRequest, SourceCreate, InferRequest)
# For each status: the name of one problem with that status, and its description.
PROBLEMS = {
    400: ("malformed-body", "The request cannot be parsed."),
    401: ("unauthenticated", "The token is missing, unknown, expired or revoked."),
    403: ("forbidden", "You may see this, but not do that."),
    404: ("not-found", "It does not exist, or you may not see it."),
    408: ("body-too-slow", "The body did not arrive in time."),
    409: ("conflict", "The request conflicts with the current state."),
    413: ("body-too-large", "The body is too large."),
    415: ("unsupported-media-type", "The content type is not supported here."),
    422: ("invalid-request", "A value is invalid."),
    429: ("too-many-requests", "Too many requests with this token: retry after the seconds in `Retry-After`."),
    500: ("internal-error", "An internal error."),
    503: ("busy", "Temporarily unavailable: retry after the seconds in `Retry-After`."),
}
_STRING: dict[str, Any] = {"schema": {"type": "string"}}  # Any: a part of OpenAPI
REQUEST_ID = {"X-Request-ID": {"description": "The id of the request in the log.", **_STRING}}
LOCATION = {"Location": {"description": "The path of the new resource.", **_STRING}}
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
_HEADERS = {
    401: {"WWW-Authenticate": {"description": "The authentication scheme.", **_STRING}},
    429: _RETRY,
    503: _RETRY,
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:  # Any: as FastAPI expects it
    """Describe the error responses that are specific to a route; the common ones are added to every route."""
    return {status: _problem(status) for status in statuses}


def located(status: int) -> dict[int | str, dict[str, Any]]:
    """Describe a response that has a `Location` header."""
    return {status: {"headers": LOCATION}}


def schema_ref(model: type[BaseModel]) -> dict[str, str]:
    """Return the reference to a model in the OpenAPI document, for routes that parse their bodies themselves."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def example_of(model: type[BaseModel]) -> object:
    """Return the example of a model."""
    return model.model_json_schema()["example"]


class ApiApp(FastAPI):
    """An app with a complete OpenAPI document."""

    _serialized: bytes | None = None  # the document

    def setup(self) -> None:
        """Register the route of the document only; FastAPI's own would serialise it for every request."""
        assert self.openapi_url is not None
        self.add_route(self.openapi_url, self._serve_document, include_in_schema=False)

    async def _serve_document(self, _: Request) -> Response:
        if self._serialized is None:
            self._serialized = json.dumps(self.openapi()).encode()
        return Response(self._serialized, media_type=JSON)

    def openapi(self) -> dict[str, Any]:  # Any: parts of OpenAPI
        """Return the document, which is built once."""
        if self.openapi_schema is None:
            document = super().openapi()
            _, models = models_json_schema(
                [(model, "validation") for model in SELF_PARSED], ref_template="#/components/schemas/{model}"
            )
            schemas = document["components"]["schemas"]
            schemas |= models["$defs"]
            for framework in ("HTTPValidationError", "ValidationError"):  # ProblemResponse replaces them
                schemas.pop(framework, None)
            for methods in document["paths"].values():
                for operation in methods.values():
                    _complete(operation)
        return super().openapi()


def _complete(operation: dict[str, Any]) -> None:
    """Add the common error responses, and the headers of every response."""
    responses = operation["responses"]
    responses |= _common_problems(operation)
    for response in responses.values():
        response["headers"] = {**response.get("headers", {}), **REQUEST_ID}
    operation["responses"] = {status: responses[status] for status in sorted(responses)}


def _common_problems(operation: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Describe the error responses of all operations that need a token, have a body, or have parameters."""
    statuses = {500, 503}
    if "security" in operation:
        statuses |= {401, 429}
    if "requestBody" in operation:
        statuses |= {400, 408, 413, 415, 422}
    if "parameters" in operation:
        statuses.add(422)
    return {str(status): _problem(status) for status in sorted(statuses)}


def _problem(status: int) -> dict[str, Any]:
    kind, description = PROBLEMS[status]
    example = {
        "type": f"urn:alacarte:problem:{kind}",
        "title": title_of(kind),
        "status": status,
        "detail": description,
    }
    return {
        "description": description,
        "content": {PROBLEM: {"schema": schema_ref(ProblemResponse), "example": example}},
        "headers": _HEADERS.get(status, {}),
    }
