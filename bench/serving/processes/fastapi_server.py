"""The bare model behind FastAPI, without batching: `python -m bench.serving.processes.fastapi_server --port N …`."""

import argparse
import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from fastapi import FastAPI, UploadFile

from bench.serving.bare_model import BareModel, parse_weights


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--weights", type=parse_weights, required=True)
    options = parser.parse_args()
    model = BareModel(options.backbone, options.weights)
    app = FastAPI()
    # One thread: parallel passes would compete for the cores that one pass can use.
    thread = ThreadPoolExecutor(1)

    @app.post("/predict")
    async def predict(image: UploadFile) -> dict[str, Any]:  # Any: JSON
        content = await image.read()
        return await asyncio.get_running_loop().run_in_executor(thread, model.predict_one, content)

    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
