"""The service with a clock at every door of a request: `python -m bench.serving.processes.traced_service --port N --marks FILE`.

For requests that come one at a time. Each stage ends where the next begins, so that together they are the whole.
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


class Marks:
    """The moments of the request that is under way, each named by the stage that ended then."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", buffering=1)
        self._marks: list[tuple[str, float]] = []

    def mark(self, stage: str) -> None:
        """The stage has ended just now; from any thread."""
        self._marks.append((stage, time.perf_counter()))

    def begin(self) -> None:
        """A request has come in."""
        self._marks = []

    def end(self) -> None:
        """Its answer has left: nobody waits while this is written."""
        self._file.write(json.dumps(self._marks) + "\n")


def trace(marks: Marks) -> None:
    """Puts a mark at every door; a door that is no longer there fails at once."""
    _trace_edge(marks)
    _before(marks, "auth", BodyLimitMiddleware, "__call__")
    _after_awaited(marks, "parse", service.routes.predict, "parse_predict_request")
    _before(marks, "rights", Engine, "run")
    _before(marks, "turn", service.engine.decode, "decode_picture")
    _after(marks, "decode", service.engine.decode, "decode_picture")
    _before(marks, "queue", service.engine.device, "pass_logits")
    _after(marks, "pass", service.engine.device, "pass_logits")
    _after(marks, "compose", service.prediction.predict, "compose")
    _after(marks, "serialise", service.prediction.predict, "serialize_prediction")
    _after_awaited(marks, "recheck", service.routes.predict, "run_prediction")


def _trace_edge(marks: Marks) -> None:
    inner = RequestLifecycleMiddleware.__call__

    async def traced(self: RequestLifecycleMiddleware, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") != PATH:
            await inner(self, scope, receive, send)
            return
        marks.begin()
        marks.mark("accept")

        async def send_marked(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                marks.mark("send")

        await inner(self, scope, receive, send_marked)
        marks.end()

    _replace(RequestLifecycleMiddleware, "__call__", traced)


def _before(marks: Marks, stage: str, home: object, name: str) -> None:
    inner = getattr(home, name)

    @functools.wraps(inner)
    def traced(*given: Any, **named: Any) -> Any:  # Any: whatever the door takes and gives
        marks.mark(stage)
        return inner(*given, **named)

    _replace(home, name, traced)


def _after(marks: Marks, stage: str, home: object, name: str) -> None:
    inner = getattr(home, name)

    @functools.wraps(inner)
    def traced(*given: Any, **named: Any) -> Any:
        found = inner(*given, **named)
        marks.mark(stage)
        return found

    _replace(home, name, traced)


def _after_awaited(marks: Marks, stage: str, home: object, name: str) -> None:
    inner: Callable[..., Awaitable[Any]] = getattr(home, name)

    @functools.wraps(inner)
    async def traced(*given: Any, **named: Any) -> Any:
        found = await inner(*given, **named)
        marks.mark(stage)
        return found

    _replace(home, name, traced)


def _replace(home: object, name: str, by: object) -> None:
    setattr(home, name, by)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--marks", type=Path, required=True)
    options = parser.parse_args()
    trace(Marks(options.marks))
    serve(port=options.port)
