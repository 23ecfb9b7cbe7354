"""A fake replica: it records its requests, and answers or closes the connection as configured."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeReplica:
    """The recorded requests and the configured behaviour."""

    def __init__(self) -> None:
        self.address = ""
        self.requests: list[tuple[str, str]] = []  # methods and paths
        self.headers: list[dict[str, str]] = []
        self.closes_without_response = False  # before a response
        self.first_bytes = threading.Event()  # of a body
        self.status = 200


@contextmanager
def serve_fake_replica() -> Iterator[FakeReplica]:
    replica = FakeReplica()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            replica.requests.append((self.command, self.path))
            replica.headers.append({name.lower(): value for name, value in self.headers.items()})
            left = int(self.headers.get("Content-Length", 0))
            if left:
                left -= len(self.rfile.read(1))
                replica.first_bytes.set()
                self.rfile.read(left)
            if replica.closes_without_response:
                self.close_connection = True
                return
            body = json.dumps({"by": replica.address}).encode()
            self.send_response(replica.status)
            self.send_header("X-Request-ID", self.headers.get("X-Request-ID", ""))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET  # noqa: N815  # the names of the library

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the signature of the library
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        replica.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield replica
        finally:
            server.shutdown()
            thread.join()
