"""Requests and responses of the Open Inference Protocol (KServe v2), as far as the service supports it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from alacarte.api.base import PICTURE_EXAMPLE, example

MAX_SIZE = 10_000
MAX_DIMENSIONS = 8

Parameters = dict[str, bool | int | float | str]


class ServerMetadataResponse(BaseModel):
    """The server: its name, version and protocol extensions."""

    model_config = example(name="alacarte", version="0.1.0", extensions=["binary_tensor_data"])

    name: str
    version: str
    extensions: list[str]


class ServerLiveResponse(BaseModel):
    """Whether the server process is alive."""

    model_config = example(live=True)

    live: bool = True


class ServerReadyResponse(BaseModel):
    """Whether the server can answer requests."""

    model_config = example(ready=True)

    ready: bool = True


class ModelReadyResponse(BaseModel):
    """Whether the caller can use the model."""

    model_config = example(name="flowers", ready=True)

    name: str
    ready: bool


class TensorMetadata(BaseModel):
    """Name, type and shape of an input or output tensor."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadataResponse(BaseModel):
    """A task, presented as a model."""

    model_config = example(
        name="flowers",
        versions=["1"],
        platform="alacarte",
        inputs=[{"name": "image", "datatype": "BYTES", "shape": [-1]}],
        outputs=[
            {"name": "label", "datatype": "BYTES", "shape": [-1]},
            {"name": "score", "datatype": "FP32", "shape": [-1]},
        ],
    )

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class InferInput(BaseModel):
    """An input tensor: its data is in the JSON or, with the binary extension, after it."""

    name: str
    shape: Annotated[list[Annotated[int, Field(ge=0, le=MAX_SIZE)]], Field(fail_fast=True, max_length=MAX_DIMENSIONS)]
    datatype: str
    parameters: dict[str, Any] = Field(default_factory=dict)  # Any: extensions define them
    data: list[Any] | None = None  # Any: strings, nested like the shape


class RequestedOutput(BaseModel):
    """An output tensor that the caller asks for."""

    name: str


class InferRequest(BaseModel):
    """Pictures to classify."""

    model_config = example(inputs=[{"name": "image", "shape": [1], "datatype": "BYTES", "data": [PICTURE_EXAMPLE]}])

    id: str | None = Field(default=None, max_length=200)
    inputs: Annotated[list[InferInput], Field(fail_fast=True)]
    outputs: Annotated[list[RequestedOutput], Field(fail_fast=True)] | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)  # Any: ours are validated, others ignored


class InferOutput(BaseModel):
    """An output tensor."""

    name: str
    datatype: Literal["BYTES", "FP32"]
    shape: list[int]
    data: list[str] | list[float]


class InferResponse(BaseModel):
    """The output tensors."""

    model_config = example(
        model_name="flowers",
        model_version="1",
        outputs=[
            {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["rose"]},
            {"name": "score", "datatype": "FP32", "shape": [1], "data": [0.93]},
        ],
    )

    model_name: str
    model_version: str
    id: str | None = None
    parameters: Parameters = Field(default_factory=dict)
    outputs: list[InferOutput]
