"""The bare model behind FastAPI, a picture at a time: `python -m bench.serving.processes.fastapi_server --port N …`."""

import argparse
import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from fastapi import FastAPI, UploadFile

from bench.serving.bare_model import BareModel, weights_of


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--weights", type=weights_of, required=True)
    options = parser.parse_args()
    model = BareModel(options.backbone, options.weights)
    app = FastAPI()
    # One thread: passes side by side would fight for the cores that one of them can fill.
    thread = ThreadPoolExecutor(1)

    @app.post("/predict")
    async def predict(image: UploadFile) -> dict[str, Any]:  # Any: JSON
        content = await image.read()
        return await asyncio.get_running_loop().run_in_executor(thread, model.answer, content)

    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
