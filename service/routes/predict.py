"""`POST /predict`: classify pictures with the sources that the caller may use."""

from typing import Any

from fastapi import APIRouter, Request, Response

from alacarte.api.predictions import PredictOptions, PredictRequest, PredictResponse
from service.http.media_types import JSON, MULTIPART
from service.http.openapi import example_of, problems, schema_ref
from service.http.request_context import Context, cancel_on_disconnect
from service.prediction.predict import run_prediction
from service.prediction.request import IMAGE, parse_predict_request

router = APIRouter(tags=["prediction"])


def _form_schema() -> dict[str, Any]:  # Any: a JSON schema
    options = PredictOptions.model_json_schema()
    image = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    properties = {IMAGE: image, **options["properties"]}
    return {**options, "title": "PredictForm", "properties": properties, "required": [IMAGE]}


@router.post(
    "/predict",
    summary="Predict labels",
    response_model=PredictResponse,
    responses=problems(404, 409),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": schema_ref(PredictRequest), "example": example_of(PredictRequest)},
                MULTIPART: {"schema": _form_schema()},
            },
        }
    },
)
async def predict(request: Request, context: Context) -> Response:
    """Classify each picture with the prompts of the sources that you own or were granted, and with no others.

    Send picture files as multipart fields `image`, or in base64 as JSON. Rights are read when the request arrives
    and again just before the response is sent: it contains nothing that was revoked or forgotten in between.
    """
    query = await parse_predict_request(request, context)
    return Response(await cancel_on_disconnect(request, run_prediction(context, query)), media_type=JSON)
