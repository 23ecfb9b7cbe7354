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

from bench.serving.bare_model import BareModel, Weights, weights_of


class BareApi(litserve.LitAPI):  # type: ignore[misc]  # LitServe is untyped
    """Decode each, pass all, encode each: LitServe's own hooks, in a worker process of its own."""

    def __init__(self, name: str, weights: Weights, threads: int, workers: int, **batching: float) -> None:
        super().__init__(**batching)
        self._name = name
        self._weights = weights
        self._threads = threads
        self._workers = workers

    def setup(self, device: str) -> None:  # noqa: ARG002  # LitServe's signature
        """Builds the model, in the worker, which has its share of the cores."""
        torch.set_num_threads(max(1, torch.get_num_threads() // self._workers))
        self._model = BareModel(self._name, self._weights)
        self._pool = ThreadPoolExecutor(self._threads)

    def decode_request(self, request: Request) -> bytes:  # by this type LitServe knows to bring the form
        """The picture's bytes, still encoded: pictures of a batch are decoded together."""
        form: Mapping[str, UploadFile] = request
        return form["image"].file.read()

    def batch(self, inputs: list[bytes]) -> Tensor:
        """The pictures of a batch, decoded in as many threads as the setting has."""
        return torch.stack(list(self._pool.map(self._model.prepare, inputs)))

    def predict(self, x: Tensor) -> list[dict[str, Any]]:  # Any: JSON
        """The labels of every picture."""
        return list(self._model.predict(x))

    def unbatch(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """They are one for each already."""
        return output

    def encode_response(self, output: dict[str, Any]) -> dict[str, Any]:
        """They are JSON already."""
        return output


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--weights", type=weights_of, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--timeout-ms", type=float, required=True)
    parser.add_argument("--threads", type=int, required=True, help="that decode the pictures of a batch")
    parser.add_argument("--workers", type=int, required=True, help="processes that compute, each a share of the cores")
    options = parser.parse_args()
    os.environ["LITSERVE_ANALYTICS"] = "0"
    api = BareApi(
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
