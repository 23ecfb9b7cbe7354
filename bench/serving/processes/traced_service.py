"""The service with timestamps of every stage: `python -m bench.serving.processes.traced_service --port N --marks FILE`.

Requests must come one at a time. Each stage ends where the next begins, so their sum is the whole request.
"""

import argparse
import functools
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.types import Message, Receive, Scope, Send

import service.engine.decode
import service.engine.device
import service.prediction.predict
import service.routes.predict
from alacarte.cli.commands.serve import serve
from service.engine.engine import Engine
from service.middleware.body_limit import BodyLimitMiddleware
from service.middleware.request_lifecycle import RequestLifecycleMiddleware

PATH = "/predict"


class StageRecorder:
    """Records when each stage of the current request ended."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", buffering=1)
        self._marks: list[tuple[str, float]] = []

    def mark(self, stage: str) -> None:
        """Record the end of a stage; may be called from any thread."""
        self._marks.append((stage, time.perf_counter()))

    def begin(self) -> None:
        """Start a new request."""
        self._marks = []

    def end(self) -> None:
        """Write the stages of the request, after its response was sent."""
        self._file.write(json.dumps(self._marks) + "\n")


def trace(recorder: StageRecorder) -> None:
    """Patch the functions at the ends of stages; raise AttributeError if one does not exist."""
    _trace_middleware(recorder)
    _record_before(recorder, "auth", BodyLimitMiddleware, "__call__")
    _record_after_awaited(recorder, "parse", service.routes.predict, "parse_predict_request")
    _record_before(recorder, "rights", Engine, "run")
    _record_before(recorder, "admit", service.engine.decode, "decode_picture")
    _record_after(recorder, "decode", service.engine.decode, "decode_picture")
    _record_before(recorder, "queue", service.engine.device, "batch_logits")
    _record_after(recorder, "pass", service.engine.device, "batch_logits")
    _record_after(recorder, "compose", service.prediction.predict, "compose")
    _record_after(recorder, "serialise", service.prediction.predict, "serialize_prediction")
    _record_after_awaited(recorder, "recheck", service.routes.predict, "run_prediction")


def _trace_middleware(recorder: StageRecorder) -> None:
    inner = RequestLifecycleMiddleware.__call__

    async def traced(self: RequestLifecycleMiddleware, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") != PATH:
            await inner(self, scope, receive, send)
            return
        recorder.begin()
        recorder.mark("accept")

        async def send_and_record(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                recorder.mark("send")

        await inner(self, scope, receive, send_and_record)
        recorder.end()

    _replace(RequestLifecycleMiddleware, "__call__", traced)


def _record_before(recorder: StageRecorder, stage: str, owner: object, name: str) -> None:
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def traced(*args: Any, **kwargs: Any) -> Any:  # Any: the signature of the patched function
        recorder.mark(stage)
        return inner(*args, **kwargs)

    _replace(owner, name, traced)


def _record_after(recorder: StageRecorder, stage: str, owner: object, name: str) -> None:
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def traced(*args: Any, **kwargs: Any) -> Any:
        result = inner(*args, **kwargs)
        recorder.mark(stage)
        return result

    _replace(owner, name, traced)


def _record_after_awaited(recorder: StageRecorder, stage: str, owner: object, name: str) -> None:
    inner: Callable[..., Awaitable[Any]] = getattr(owner, name)

    @functools.wraps(inner)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        result = await inner(*args, **kwargs)
        recorder.mark(stage)
        return result

    _replace(owner, name, traced)


def _replace(owner: object, name: str, by: object) -> None:
    setattr(owner, name, by)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--marks", type=Path, required=True)
    options = parser.parse_args()
    trace(StageRecorder(options.marks))
    serve(port=options.port)
