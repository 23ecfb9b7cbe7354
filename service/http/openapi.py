"""The description of the API (OpenAPI), with the documents whose bodies are read by hand."""

import json
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic.json_schema import models_json_schema

from service.schemas.oip import InferAsked
from service.schemas.predictions import Question
from service.schemas.problem import REQUEST_ID, ProblemDocument, common_problems
from service.schemas.sources import SourceToMake

BY_HAND = (ProblemDocument, Question, SourceToMake, InferAsked)


class ApiApp(FastAPI):
    """An app whose description is whole."""

    _written: bytes | None = None  # the description as it is sent

    def setup(self) -> None:
        """Only the description has a route: the framework's own would write it anew for everybody who asks."""
        assert self.openapi_url is not None
        self.add_route(self.openapi_url, self._describe, include_in_schema=False)

    async def _describe(self, _: Request) -> Response:
        if self._written is None:
            self._written = json.dumps(self.openapi()).encode()
        return Response(self._written, media_type="application/json")

    def openapi(self) -> dict[str, Any]:  # Any: parts of OpenAPI
        """The description, made once."""
        if self.openapi_schema is None:
            described = super().openapi()
            _, found = models_json_schema(
                [(model, "validation") for model in BY_HAND], ref_template="#/components/schemas/{model}"
            )
            schemas = described["components"]["schemas"]
            schemas |= found["$defs"]
            for framework in ("HTTPValidationError", "ValidationError"):  # whose documents ours stand in for
                schemas.pop(framework, None)
            for methods in described["paths"].values():
                for operation in methods.values():
                    _complete(operation)
        return super().openapi()


def _complete(operation: dict[str, Any]) -> None:
    """Adds what the operation shares with others: their refusals, and the headers of every answer."""
    responses = operation["responses"]
    responses |= common_problems(operation)
    for told in responses.values():
        told["headers"] = {**told.get("headers", {}), **REQUEST_ID}
    operation["responses"] = {status: responses[status] for status in sorted(responses)}
