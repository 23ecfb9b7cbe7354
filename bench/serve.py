"""Requests through real HTTP, over the bare model behind LitServe: `python -m bench.serve [--json] [--quick]`.

All contenders are processes on the same cores, asked alike about the same pictures, in turns: one is under load while
the others are still. Beside it: one request at a time, and where its milliseconds go.
"""

import argparse
import base64
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

import torch

from bench.output import Line, show_tables
from bench.serving.bare_model import BareModel, weights_of
from bench.serving.contenders import LITSERVE, TRACED, USUAL, Scene
from bench.serving.fixtures import make_people
from bench.serving.load import Contender, ask, load
from bench.serving.pictures import make_pictures
from bench.serving.schedule import BARE, Pace, play
from bench.serving.server_process import served
from bench.serving.stats import ratio
from bench.serving.tables import load_line, lone_line, p50s, rates, spread, stage_lines
from tests.trainer.pictures import WEIGHTS

PROMPTS = (1, 5, 20, 50)


def main() -> None:
    """Measure and print."""
    options = read_options()
    weights = options.weights or (str(WEIGHTS) if WEIGHTS.exists() and "tiny" in options.backbone else "random")
    pictures = make_pictures()
    model = BareModel(options.backbone, weights_of(weights))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept, marks = folder / "pictures.json", folder / "marks"
        kept.write_text(json.dumps([base64.b64encode(picture).decode() for picture in pictures]))
        scene = Scene(folder, kept, options.backbone, weights, make_people(folder / "home", model.backbone, PROMPTS))
        tell("how fast the client is")
        ceiling = client_ceiling(folder, kept, options.connections)
        setting, settings_lines = USUAL, list[Line]()
        if not options.quick:
            tell("how LitServe is set best")
            setting, settings_lines = scene.best_litserve(options.connections, options.seconds)
        tell("starting everyone")
        with scene.contenders(setting, marks) as contenders:
            warm_up(contenders, kept, options.connections)
            pace = Pace(options.rounds, options.connections, options.seconds, options.requests)
            played = play(contenders, model, pictures, kept, pace, tell)
        loads, lones = played.loads, played.lones
        names = {BARE: "decode + bare pass, no server"} | {key: one.name for key, one in contenders.items()}
        tables: dict[str, list[Line]] = {
            "under load": [load_line(names[key], done, loads[LITSERVE]) for key, done in loads.items()],
            "one at a time": [lone_line(names[key], reports, lones[BARE]) for key, reports in lones.items()],
            "a lone request with 20 prompts": stage_lines(lones[TRACED], marks),
        }
    if settings_lines:
        tables["settings of LitServe"] = settings_lines
    summary: dict[str, object] = {
        "backbone": options.backbone,
        "weights": weights if weights == "random" else Path(weights).name,
        "cores": len(os.sched_getaffinity(0)),
        "torch_threads": torch.get_num_threads(),
        "connections": options.connections,
        "rounds": options.rounds,
        "litserve": f"{setting}",
        "client_ceiling_per_second": ceiling,
        "over_litserve": ratio(rates(loads["20"]), rates(loads[LITSERVE])),
        "over_litserve_rounds": spread(loads, "20", LITSERVE),
        "lone_over_bare": ratio(p50s(lones["1"]), p50s(lones[BARE])),
        "lone_over_bare_20": ratio(p50s(lones["20"]), p50s(lones[BARE])),
    }
    show_tables(tables, summary, options.json)


def read_options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backbone", default="vit_tiny_patch16_224")
    parser.add_argument("--weights", help="a .safetensors file, or 'random'; by default a file beside the project")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each contender's turn under load")
    parser.add_argument("--requests", type=int, default=7, help="of each contender's turn with one at a time")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="two short rounds, with LitServe set as usual")
    options = parser.parse_args()
    if options.quick:  # but for what is asked for
        parser.set_defaults(rounds=2, seconds=2.0, requests=5)
        options = parser.parse_args()
    if importlib.util.find_spec("litserve") is None:
        sys.exit("LitServe, the peer of this bench, is not installed: pip install 'alacarte[dev]'")
    return options


def client_ceiling(folder: Path, pictures: Path, connections: int) -> float:
    """Requests a second that the client manages where nothing is computed."""
    with served("trivial", "bench.serving.processes.trivial_server", [], folder, {}) as server:
        return load(Contender("trivial", server), pictures, connections, 2.0).per_second


def warm_up(contenders: dict[str, Contender], pictures: Path, connections: int) -> None:
    """Backbones are built, and prompts in their slots, before anything counts."""
    for key, contender in contenders.items():
        tell(f"warming up: {contender.name}")
        contender.server.resume()
        ask(contender, pictures, 1, requests=2 * len(contender.tokens))
        if key != TRACED:  # whose requests come one at a time
            ask(contender, pictures, connections, seconds=1.0)
        contender.server.pause()


def tell(what: str) -> None:
    """What happens now, for whoever waits."""
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
