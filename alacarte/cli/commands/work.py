"""`alacarte work`: a worker that trains whatever shards wait in the registry."""

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
from alacarte.cli.local_options import opened
from alacarte.cli.options import DtypeName, Json, weights_of
from alacarte.cli.output import print_json, print_message

GB = 10**9


def work(
    once: Annotated[
        bool, typer.Option("--once", help="End when no work is left; the exit code is 1 if a training failed.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", help="By which people find this worker.", show_default="host and process")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="FILE|random",
            envvar="ALACARTE_WEIGHTS",
            help="The backbones' weights, the very ones that the service has.",
            show_default="from the hub",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option("--device", envvar="ALACARTE_DEVICE", help="Where to compute: cpu, cuda, cuda:1, mps.")
    ] = "cpu",
    dtype: Annotated[
        DtypeName, typer.Option("--dtype", envvar="ALACARTE_DTYPE", help="Precision of the backbone.")
    ] = "float32",
    cache_gb: Annotated[
        float, typer.Option(min=0, max=10**6, help="Disk for what is computed once and used again.")
    ] = 4,
    poll: Annotated[
        float, typer.Option(min=0.1, max=3600, metavar="SECONDS", help="How often to look for work.")
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Train the shards that wait, as they come, and carry out erasures; Ctrl-C gives the present one back."""
    with opened() as registry:  # what is told before torch is imported is told at once
        from alacarte.cli.backbones import Wanted, build, require_device
        from trainer.worker.backbones import WorkerBackbones
        from trainer.worker.worker import Worker

        require_device(device)
        wanted = weights_of(weights)
        backbones = WorkerBackbones(
            lambda backbone, size: build(Wanted(backbone, wanted, device, dtype), size, print_message)
        )
        worker = Worker(
            registry,
            backbones,
            name or f"{socket.gethostname()}:{os.getpid()}",
            cache_bytes=int(cache_gb * GB),
            poll_seconds=poll,
        )
        stop = threading.Event()
        with _stopped_by_signals(stop), _told_in_lines():
            tally = worker.run(stop, once=once)
    if as_json:
        print_json({"published": tally.published, "failed": tally.failed, "lost": tally.lost})
    if once and tally.failed:
        attempts = tally.published + tally.failed + tally.lost
        raise CommandError(f"{tally.failed} of {attempts} trainings failed: `alacarte source show` tells why")


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the work in order; a second one ends the process as it would any other command's."""
    signals = [number for number in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in signals}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def heed(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature of signal handlers
        restore()
        stop.set()

    for number in signals:
        signal.signal(number, heed)
    try:
        yield
    finally:
        restore()


@contextmanager
def _told_in_lines() -> Iterator[None]:
    """The worker's events as lines on stderr."""
    from trainer.worker.log import LOGGER

    log, lines = logging.getLogger(LOGGER), _Lines()
    before = log.level
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(lines)


class _Lines(logging.Handler):
    """Every event in a line, its fields behind it."""

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = getattr(record, "fields", {})
        trace = fields.get("trace")
        told = ", ".join(f"{name} {value}" for name, value in fields.items() if name != "trace")
        print_message(f"{record.getMessage()}: {told}" if told else record.getMessage())
        for line in str(trace or "").splitlines():
            print_message(line)
