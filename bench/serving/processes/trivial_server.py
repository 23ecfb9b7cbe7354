"""A handler that reads a request and answers nothing: what the client itself can do. `python -m … --port N`."""

import argparse
import asyncio

from bench.serving.http_messages import Arriving

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Trivial(asyncio.Protocol):
    """Answers every request as soon as it is there."""

    def __init__(self) -> None:
        self._arriving = Arriving()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._arriving.take(data) is not None:
            self._transport.write(ANSWER)


async def serve(port: int) -> None:
    """Serves until killed."""
    server = await asyncio.get_running_loop().create_server(Trivial, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(serve(parser.parse_args().port))
