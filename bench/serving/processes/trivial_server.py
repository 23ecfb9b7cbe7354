"""A server that computes nothing, to measure the client's own limit: `python -m … --port N`."""

import argparse
import asyncio

from bench.serving.http_messages import MessageReader

RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class TrivialHandler(asyncio.Protocol):
    """Answers every complete request with the same response."""

    def __init__(self) -> None:
        self._reader = MessageReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._reader.feed(data) is not None:
            self._transport.write(RESPONSE)


async def serve(port: int) -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(TrivialHandler, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(serve(parser.parse_args().port))
