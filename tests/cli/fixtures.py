"""Helpers that run the command line in this process, with tiny pictures and a tiny backbone."""

import json
import random
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image
from typer.testing import CliRunner

from alacarte.cli.main import app

BACKBONE = ("--backbone", "vit_tiny_patch16_224", "--weights", "random")
TINY = (*BACKBONE, "--size", "32", "--epochs", "1", "--augment", "none")
SHADES = {"cat": (200, 60, 60), "dog": (60, 200, 60), "emu": (60, 60, 200)}


@dataclass(frozen=True)
class Ended:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Parse all of stdout as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """Return the last line of stderr, which must be the error."""
        line = self.err.splitlines()[-1]
        assert line.startswith("error: ")
        return line.removeprefix("error: ")


def run(*arguments: str | Path) -> Ended:
    """Run the command in this process; unexpected exceptions are raised here."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


def run_json(*arguments: str | Path) -> Any:  # Any: a JSON document
    """Run the command with `--json`, require that it succeeds, and return its document."""
    ended = run(*arguments, "--json")
    assert ended.code == 0, ended.err
    return ended.document


@contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:  # Any: as of Popen
    """Run a process that obeys Ctrl-C even if a shell started the tests in the background; kill it at the end."""
    accept = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=accept, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def draw(folder: Path, labels: tuple[str, ...] = tuple(SHADES), each: int = 8) -> Path:
    """Draw class folders of small pictures in different shades."""
    dice = random.Random(1)
    for label in labels:
        (folder / label).mkdir(parents=True)
        for number in range(each):
            shade = tuple(channel + dice.randrange(-50, 50) for channel in SHADES[label])
            Image.new("RGB", (20, 20), shade).save(folder / label / f"{number}.png")
    return folder
