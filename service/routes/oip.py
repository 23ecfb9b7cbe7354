"""`/v2`: the Open Inference Protocol, for the clients of KServe and Triton; a task is a model."""

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Header, Path, Request, Response

from alacarte.api.oip import (
    InferRequest,
    InferResponse,
    ModelMetadataResponse,
    ModelReadyResponse,
    ServerLiveResponse,
    ServerMetadataResponse,
    ServerReadyResponse,
    TensorMetadata,
)
from service.errors import NoUsablePrompts
from service.http.media_types import JSON, OCTET_STREAM
from service.http.openapi import example_of, problems, schema_ref
from service.http.request_context import Context, cancel_on_disconnect
from service.prediction.oip_codec import BYTES, IMAGE, VERSION, parse_infer_request, to_query
from service.prediction.predict import run_prediction
from service.prediction.rights_recheck import read_task_rights
from service.state import app_state

router = APIRouter(tags=["open inference protocol"])
VERSIONED = f"/v2/models/{{task}}/versions/{VERSION}"
_INFER_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": schema_ref(InferRequest), "example": example_of(InferRequest)},
            OCTET_STREAM: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
TaskParameter = Annotated[str, Path(description="A task's name or id.")]


@router.get("/v2", summary="Get the server metadata")
async def get_server(context: Context) -> ServerMetadataResponse:  # noqa: ARG001  # only to require a token
    """Return the server's name, version and protocol extensions."""
    return ServerMetadataResponse(name="alacarte", version=version("alacarte"), extensions=["binary_tensor_data"])


@router.get("/v2/health/live", summary="Check that the server is alive")
async def check_live() -> ServerLiveResponse:
    """Succeed while the process is running. Needs no token."""
    return ServerLiveResponse()


@router.get("/v2/health/ready", summary="Check that the server is ready")
async def check_ready(request: Request) -> ServerReadyResponse:
    """Do the same as `/readyz`. Needs no token."""
    await app_state(request.scope).readiness.require()
    return ServerReadyResponse()


@router.get(
    VERSIONED,
    name="model_version",
    summary="Get the metadata of the only version of a task",
    responses=problems(404),
)
@router.get("/v2/models/{task}", summary="Get the metadata of a task", responses=problems(404))
async def get_model(context: Context, task: TaskParameter) -> ModelMetadataResponse:
    """Return the input and output tensors of the task."""
    name = (await read_task_rights(context, task)).task.name
    return ModelMetadataResponse(
        name=name,
        versions=[VERSION],
        platform="alacarte",
        inputs=[TensorMetadata(name=IMAGE, datatype=BYTES, shape=[-1])],
        outputs=[
            TensorMetadata(name="label", datatype=BYTES, shape=[-1]),
            TensorMetadata(name="score", datatype="FP32", shape=[-1]),
        ],
    )


@router.get(
    f"{VERSIONED}/ready",
    name="model_version_ready",
    summary="Check that you can use the only version of a task",
    responses=problems(404, 409),
)
@router.get("/v2/models/{task}/ready", summary="Check that you can use a task", responses=problems(404, 409))
async def check_model(context: Context, task: TaskParameter) -> ModelReadyResponse:
    """Succeed if there is a prompt that you may use."""
    usable = await read_task_rights(context, task)
    if not usable.prompts:
        raise NoUsablePrompts("there is no prompt that you may use: ask for a grant, or wait for training")
    return ModelReadyResponse(name=usable.task.name, ready=True)


@router.post(
    f"{VERSIONED}/infer",
    name="infer_version",
    summary="Predict labels with the only version of a task",
    response_model=InferResponse,
    responses=problems(404, 409),
    openapi_extra=_INFER_BODY,
)
@router.post(
    "/v2/models/{task}/infer",
    summary="Predict labels",
    response_model=InferResponse,
    responses=problems(404, 409),
    openapi_extra=_INFER_BODY,
)
async def infer(
    request: Request,
    context: Context,
    task: TaskParameter,
    header_length: Annotated[
        int | None,
        Header(alias="Inference-Header-Content-Length", ge=0, description="The size of the JSON before binary data."),
    ] = None,
) -> Response:
    """Classify the pictures in the input `image` with the sources that you may use.

    The pictures are files: in base64 as JSON strings, or raw with the binary extension. The parameters `top_k`,
    `composition`, `weighting`, `release` and `sources` (names separated by commas) are those of `/predict`; with a
    `top_k` above one the outputs have a second dimension.
    """
    state = context.state
    body = await request.body()
    max_pictures = state.settings.max_pictures
    infer_request, pictures = await state.thread_pool.run(
        lambda: parse_infer_request(body, header_length, max_pictures)
    )
    query = to_query(infer_request, pictures, task)
    return Response(await cancel_on_disconnect(request, run_prediction(context, query)), media_type=JSON)
