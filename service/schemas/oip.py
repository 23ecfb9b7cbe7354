"""The documents of the Open Inference Protocol, as far as they are used here."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_SIDE = 10_000
MAX_SIDES = 8

Parameters = dict[str, bool | int | float | str]


class ServerTold(BaseModel):
    """The server."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"name": "alacarte", "version": "0.1.0", "extensions": ["binary_tensor_data"]}}
    )

    name: str
    version: str
    extensions: list[str]


class Alive(BaseModel):
    """Whether the server lives."""

    model_config = ConfigDict(json_schema_extra={"example": {"live": True}})

    live: bool = True


class ServerReady(BaseModel):
    """Whether the server can answer."""

    model_config = ConfigDict(json_schema_extra={"example": {"ready": True}})

    ready: bool = True


class ModelReady(BaseModel):
    """Whether the caller can get answers from the model."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "flowers", "ready": True}})

    name: str
    ready: bool


class TensorTold(BaseModel):
    """A tensor that a model reads or answers with."""

    name: str
    datatype: str
    shape: list[int]


class ModelTold(BaseModel):
    """A task, as a model."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "flowers",
                "versions": ["1"],
                "platform": "alacarte",
                "inputs": [{"name": "image", "datatype": "BYTES", "shape": [-1]}],
                "outputs": [
                    {"name": "label", "datatype": "BYTES", "shape": [-1]},
                    {"name": "score", "datatype": "FP32", "shape": [-1]},
                ],
            }
        }
    )

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorTold]
    outputs: list[TensorTold]


class InferInput(BaseModel):
    """A tensor of the request: its data is here, or, by the binary extension, behind the JSON."""

    model_config = ConfigDict(extra="ignore")

    name: str
    shape: Annotated[list[Annotated[int, Field(ge=0, le=MAX_SIDE)]], Field(fail_fast=True, max_length=MAX_SIDES)]
    datatype: str
    parameters: dict[str, Any] = Field(default_factory=dict)  # Any: those of extensions
    data: list[Any] | None = None  # Any: strings, nested as the shape is


class WantedOutput(BaseModel):
    """A tensor that the caller wants."""

    model_config = ConfigDict(extra="ignore")

    name: str


class InferAsked(BaseModel):
    """Pictures to be labelled."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "example": {
                "inputs": [
                    {
                        "name": "image",
                        "shape": [1],
                        "datatype": "BYTES",
                        "data": [
                            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYGAAAAAEAAH2FzhVAAAAAElFTkSuQmCC"
                        ],
                    }
                ]
            }
        },
    )

    id: str | None = Field(default=None, max_length=200)
    inputs: Annotated[list[InferInput], Field(fail_fast=True)]
    outputs: Annotated[list[WantedOutput], Field(fail_fast=True)] | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)  # Any: ours are checked, others ignored


class InferOutput(BaseModel):
    """A tensor of the answer."""

    name: str
    datatype: Literal["BYTES", "FP32"]
    shape: list[int]
    data: list[str] | list[float]


class InferTold(BaseModel):
    """The answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "model_name": "flowers",
                "model_version": "1",
                "outputs": [
                    {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["rose"]},
                    {"name": "score", "datatype": "FP32", "shape": [1], "data": [0.93]},
                ],
            }
        }
    )

    model_name: str
    model_version: str
    id: str | None = None
    parameters: Parameters = Field(default_factory=dict)
    outputs: list[InferOutput]
