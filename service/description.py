"""The description of the API (OpenAPI), with the documents whose bodies are read by hand."""

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from service.schemas.oip import InferAsked
from service.schemas.predictions import Question
from service.schemas.problem import ProblemDocument
from service.schemas.sources import SourceToMake

BY_HAND = (ProblemDocument, Question, SourceToMake, InferAsked)


class DescribedApp(FastAPI):
    """An app whose description is whole."""

    def openapi(self) -> dict[str, Any]:  # Any: parts of OpenAPI
        """The description, made once."""
        if self.openapi_schema is None:
            described = super().openapi()
            _, found = models_json_schema(
                [(model, "validation") for model in BY_HAND], ref_template="#/components/schemas/{model}"
            )
            described["components"]["schemas"] |= found["$defs"]
        return super().openapi()
