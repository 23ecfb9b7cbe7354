"""`/v2`: the Open Inference Protocol, so that clients of KServe and Triton work; a task is a model."""

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
from service.errors import NothingUsable
from service.http import multipart
from service.http.disconnect import cancel_on_disconnect
from service.http.openapi import example_of, problems, schema_ref
from service.http.request_context import Context
from service.prediction.oip_codec import BYTES, IMAGE, VERSION, read_infer, to_query
from service.prediction.predict import read_rights, run_prediction
from service.state import app_state

router = APIRouter(tags=["open inference protocol"])
VERSIONED = f"/v2/models/{{task}}/versions/{VERSION}"
_INFER_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            multipart.JSON: {"schema": schema_ref(InferRequest), "example": example_of(InferRequest)},
            multipart.BYTES: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
Task = Annotated[str, Path(description="A task's name or id.")]


@router.get("/v2", summary="About the server")
async def server(context: Context) -> ServerMetadataResponse:  # noqa: ARG001  # it wants a token, whoever's it is
    """The server's name and version, and the extensions that it knows."""
    return ServerMetadataResponse(name="alacarte", version=version("alacarte"), extensions=["binary_tensor_data"])


@router.get("/v2/health/live", summary="Whether the server lives")
async def live() -> ServerLiveResponse:
    """Answers as long as the process does; needs no token."""
    return ServerLiveResponse()


@router.get("/v2/health/ready", summary="Whether the server can answer")
async def ready(request: Request) -> ServerReadyResponse:
    """As `/readyz`; needs no token."""
    await app_state(request.scope).readiness.require()
    return ServerReadyResponse()


@router.get(VERSIONED, name="model_version", summary="About the one version of a task", responses=problems(404))
@router.get("/v2/models/{task}", summary="About a task", responses=problems(404))
async def model(context: Context, task: Task) -> ModelMetadataResponse:
    """What the task reads and answers with."""
    found = (await read_rights(context, task)).task
    return ModelMetadataResponse(
        name=found.name,
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
    summary="Whether the one version of a task can answer you",
    responses=problems(404, 409),
)
@router.get("/v2/models/{task}/ready", summary="Whether a task can answer you", responses=problems(404, 409))
async def model_ready(context: Context, task: Task) -> ModelReadyResponse:
    """Whether there is a prompt that you may use."""
    found = await read_rights(context, task)
    if not found.prompts:
        raise NothingUsable("there is no prompt that you may use: ask for a grant, or wait for training")
    return ModelReadyResponse(name=found.task.name, ready=True)


@router.post(
    f"{VERSIONED}/infer",
    name="infer_version",
    summary="Predict labels by the one version of a task",
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
    task: Task,
    header_length: Annotated[
        int | None,
        Header(alias="Inference-Header-Content-Length", ge=0, description="The size of the JSON before binary data."),
    ] = None,
) -> Response:
    """Labels for the pictures in the input `image`, each by the sources that you may use.

    The pictures are files: in base64 as JSON strings, or as they are by the binary extension. The parameters `top_k`,
    `composition`, `weighting`, `release` and `sources` (names with commas between them) mean what they mean to
    `/predict`; with a `top_k` above one the outputs have a second dimension.
    """
    state = context.state
    body = await request.body()
    asked, pictures = await state.thread_pool.run(lambda: read_infer(body, header_length, state.settings.max_pictures))
    query = to_query(asked, pictures, task)
    return Response(await cancel_on_disconnect(request, run_prediction(context, query)), media_type=multipart.JSON)
