"""`alacarte work`: a worker that trains the shards that wait in the registry."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from alacarte.cli.errors import CommandError
from alacarte.cli.local.registry import open_local_registry
from alacarte.cli.options import GB, CacheGb, DtypeName, Json, parse_weights
from alacarte.cli.output import print_json, print_message


def work(
    once: Annotated[
        bool, typer.Option("--once", help="End when no work is left; the exit code is 1 if a training failed.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", help="The worker's name in the registry.", show_default="host and process")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="FILE|random",
            envvar="ALACARTE_WEIGHTS",
            help="The backbones' weights, the same that the service uses.",
            show_default="from the hub",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option("--device", envvar="ALACARTE_DEVICE", help="Torch device: cpu, cuda, cuda:1, mps.")
    ] = "cpu",
    dtype: Annotated[
        DtypeName, typer.Option("--dtype", envvar="ALACARTE_DTYPE", help="Precision of the backbone.")
    ] = "float32",
    cache_gb: CacheGb = 4,
    poll: Annotated[
        float, typer.Option(min=0.1, max=3600, metavar="SECONDS", help="How often to look for work.")
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Train waiting shards as they come, and carry out erasures; Ctrl-C returns the shard in training."""
    with open_local_registry() as registry:  # before torch is imported, so that errors come at once
        from alacarte.cli.backbones import BackboneOptions, build_from_options, require_device
        from trainer.worker.backbones import WorkerBackbones
        from trainer.worker.worker import Worker

        require_device(device)
        parsed = parse_weights(weights)
        backbones = WorkerBackbones(
            lambda backbone, size: build_from_options(
                BackboneOptions(backbone, parsed, device, dtype), size, print_message
            )
        )
        worker = Worker(
            registry,
            backbones,
            name or f"{socket.gethostname()}:{os.getpid()}",
            cache_bytes=int(cache_gb * GB),
            poll_seconds=poll,
        )
        stop = threading.Event()
        with _stopped_by_signals(stop), _logging_to_stderr():
            tally = worker.run(stop, once=once)
    if as_json:
        print_json({"published": tally.published, "failed": tally.failed, "lost": tally.lost})
    if once and tally.failed:
        attempts = tally.published + tally.failed + tally.lost
        raise CommandError(f"{tally.failed} of {attempts} trainings failed: `alacarte source show` shows why")


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Set the event on the first SIGTERM or SIGINT; the second one ends the process as usual."""
    signals = [number for number in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.getsignal(number) for number in signals}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature of signal handlers
        restore()
        stop.set()

    for number in signals:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()


@contextmanager
def _logging_to_stderr() -> Iterator[None]:
    """Print the worker's events as lines on stderr."""
    from trainer.worker.log import LOGGER

    log, handler = logging.getLogger(LOGGER), _LineHandler()
    previous = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(previous)
        log.removeHandler(handler)


class _LineHandler(logging.Handler):
    """Prints an event and its fields as a line, and its trace below."""

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = getattr(record, "fields", {})
        trace = fields.get("trace")
        listed = ", ".join(f"{name} {value}" for name, value in fields.items() if name != "trace")
        print_message(f"{record.getMessage()}: {listed}" if listed else record.getMessage())
        for line in str(trace or "").splitlines():
            print_message(line)
