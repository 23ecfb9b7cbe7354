"""The service on a real socket, in a thread of this process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from service.app import create_app
from service.server import make_server
from service.settings import ServiceSettings

START_SECONDS = 30.0


@contextmanager
def serve(settings: ServiceSettings) -> Iterator[str]:
    """The URL of a service that has started, and is drained and stopped at the end."""
    has_ended = threading.Event()
    told = settings.model_copy(update={"host": "127.0.0.1", "port": 0, "drain_s": 10})
    server = make_server(create_app(told), told)

    def run() -> None:
        try:
            server.run()
        finally:
            has_ended.set()

    thread = threading.Thread(target=run, name="service")
    thread.start()
    try:
        for _ in range(int(START_SECONDS / 0.01)):
            if server.started or has_ended.wait(0.01):
                break
        assert server.started, "the service did not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)
    assert not thread.is_alive(), "the service did not stop"
