"""Requests through real HTTP, over the bare model behind LitServe: `python -m bench.serve [--json] [--quick]`.

All contenders are processes on the same cores and get the same requests, in turns: one is under load while the others
are idle. Also measured: single requests, and the time of each stage of such a request.
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

from bench.output import TableRow, log, print_tables
from bench.serving.bare_model import BareModel, parse_weights
from bench.serving.contenders import DEFAULT_LITSERVE, LITSERVE, TRACED, ContenderFactory
from bench.serving.fixtures import make_pictures, make_registry
from bench.serving.load import Contender, measure_load, run_client
from bench.serving.schedule import BARE, ScheduleOptions, run_rounds
from bench.serving.server_process import start_server
from bench.serving.stats import ratio
from bench.serving.tables import load_row, p50s, rates, ratio_range, single_row, stage_rows
from tests.trainer.pictures import WEIGHTS

PROMPTS = (1, 5, 20, 50)


def main() -> None:
    """Measure and print."""
    options = read_options()
    weights = options.weights or (str(WEIGHTS) if WEIGHTS.exists() and "tiny" in options.backbone else "random")
    pictures = make_pictures()
    model = BareModel(options.backbone, parse_weights(weights))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pictures_file, marks = folder / "pictures.json", folder / "marks"
        pictures_file.write_text(json.dumps([base64.b64encode(picture).decode() for picture in pictures]))
        tokens = make_registry(folder / "home", model.backbone, PROMPTS)
        factory = ContenderFactory(folder, pictures_file, options.backbone, weights, tokens)
        log("measuring the client's limit")
        client_limit = measure_client_limit(folder, pictures_file, options.connections)
        settings, settings_rows = DEFAULT_LITSERVE, list[TableRow]()
        if not options.quick:
            log("searching LitServe's best settings")
            settings, settings_rows = factory.best_litserve(options.connections, options.seconds)
        log("starting all contenders")
        with factory.contenders(settings, marks) as contenders:
            warm_up(contenders, pictures_file, options.connections)
            schedule = ScheduleOptions(options.rounds, options.connections, options.seconds, options.requests)
            measured = run_rounds(contenders, model, pictures, pictures_file, schedule, log)
        loads, singles = measured.loads, measured.singles
        names = {BARE: "decode + bare pass, no server"} | {key: one.name for key, one in contenders.items()}
        tables: dict[str, list[TableRow]] = {
            "under load": [load_row(names[key], results, loads[LITSERVE]) for key, results in loads.items()],
            "one at a time": [single_row(names[key], reports, singles[BARE]) for key, reports in singles.items()],
            "a single request with 20 prompts": stage_rows(singles[TRACED], marks),
        }
    if settings_rows:
        tables["settings of LitServe"] = settings_rows
    summary: dict[str, object] = {
        "backbone": options.backbone,
        "weights": weights if weights == "random" else Path(weights).name,
        "cores": len(os.sched_getaffinity(0)),
        "torch_threads": torch.get_num_threads(),
        "connections": options.connections,
        "rounds": options.rounds,
        "litserve": f"{settings}",
        "client_limit_per_second": client_limit,
        "over_litserve": ratio(rates(loads["20"]), rates(loads[LITSERVE])),
        "over_litserve_rounds": ratio_range(loads, "20", LITSERVE),
        "lone_over_bare": ratio(p50s(singles["1"]), p50s(singles[BARE])),
        "lone_over_bare_20": ratio(p50s(singles["20"]), p50s(singles[BARE])),
    }
    print_tables(tables, summary, options.json)


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backbone", default="vit_tiny_patch16_224")
    parser.add_argument("--weights", help="a .safetensors file, or 'random'; by default a file beside the project")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=4.0, help="of load per contender and round")
    parser.add_argument("--requests", type=int, default=7, help="per turn of single requests")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--quick", action="store_true", help="two short rounds, without searching LitServe's best settings"
    )
    options = parser.parse_args()
    if options.quick:  # explicit options still apply
        parser.set_defaults(rounds=2, seconds=2.0, requests=5)
        options = parser.parse_args()
    if importlib.util.find_spec("litserve") is None:
        sys.exit("this benchmark compares with LitServe, which is not installed: pip install 'alacarte[dev]'")
    return options


def measure_client_limit(folder: Path, pictures: Path, connections: int) -> float:
    """Return the requests per second of the client against a server that computes nothing."""
    with start_server("trivial", "bench.serving.processes.trivial_server", [], folder, {}) as server:
        return measure_load(Contender("trivial", server), pictures, connections, 2.0).per_second


def warm_up(contenders: dict[str, Contender], pictures: Path, connections: int) -> None:
    """Build backbones and load prompts before anything is measured."""
    for key, contender in contenders.items():
        log(f"warming up: {contender.name}")
        contender.server.resume()
        run_client(contender, pictures, 1, requests=2 * len(contender.tokens))
        if key != TRACED:  # it takes one request at a time
            run_client(contender, pictures, connections, seconds=1.0)
        contender.server.pause()


if __name__ == "__main__":
    main()
