"""The bare model behind LitServe with batching: `python -m bench.serving.processes.litserve_server --port N …`."""

import argparse
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import litserve
import torch
from fastapi import Request, UploadFile
from torch import Tensor

from bench.serving.bare_model import BareModel, Weights, parse_weights


class BareModelApi(litserve.LitAPI):  # type: ignore[misc]  # LitServe is untyped
    """LitServe's hooks around the bare model, in a worker process."""

    def __init__(self, name: str, weights: Weights, threads: int, workers: int, **batching: float) -> None:
        super().__init__(**batching)
        self._name = name
        self._weights = weights
        self._threads = threads
        self._workers = workers

    def setup(self, device: str) -> None:  # noqa: ARG002  # LitServe's signature
        """Build the model in the worker, with the worker's share of the cores."""
        torch.set_num_threads(max(1, torch.get_num_threads() // self._workers))
        self._model = BareModel(self._name, self._weights)
        self._pool = ThreadPoolExecutor(self._threads)

    def decode_request(self, request: Request) -> bytes:  # LitServe parses the form because of this type
        """Return the encoded picture; the pictures of a batch are decoded together."""
        form: Mapping[str, UploadFile] = request
        return form["image"].file.read()

    def batch(self, inputs: list[bytes]) -> Tensor:
        """Decode the pictures of a batch in several threads."""
        return torch.stack(list(self._pool.map(self._model.prepare, inputs)))

    def predict(self, x: Tensor) -> list[dict[str, Any]]:  # Any: JSON
        """Return the labels of every picture."""
        return list(self._model.predict(x))

    def unbatch(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the outputs unchanged; there is one for each picture."""
        return output

    def encode_response(self, output: dict[str, Any]) -> dict[str, Any]:
        """Return the output unchanged; it is JSON already."""
        return output


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--weights", type=parse_weights, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--timeout-ms", type=float, required=True)
    parser.add_argument("--threads", type=int, required=True, help="threads that decode the pictures of a batch")
    parser.add_argument("--workers", type=int, required=True, help="worker processes, which share the cores")
    options = parser.parse_args()
    os.environ["LITSERVE_ANALYTICS"] = "0"
    api = BareModelApi(
        options.backbone,
        options.weights,
        options.threads,
        options.workers,
        max_batch_size=options.batch,
        batch_timeout=options.timeout_ms / 1000,
    )
    server = litserve.LitServer(api, accelerator="cpu", devices=1, workers_per_device=options.workers)
    server.run(host="127.0.0.1", port=options.port, log_level="warning", generate_client_file=False, access_log=False)


if __name__ == "__main__":
    main()
