"""Commands in processes of their own, forked from one that has imported everything: that takes longer than a test.

Run as a module, it reads from each line a command's arguments, variables and files for its output, forks, and tells
the process id and, after its end, the exit code.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]


@dataclass
class Child:
    """A command that runs in a process of its own."""

    pid: int
    out: Path
    err: Path
    _nursery: "Nursery"
    _code: int | None = None

    def wait(self) -> int:
        """Its exit code, which is negative if a signal ended it."""
        if self._code is None:
            self._code = self._nursery.read()
        return self._code


class Nursery:
    """The process that others are forked from, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    @contextmanager
    def command(self, arguments: list[str], environment: dict[str, str], folder: Path) -> Iterator[Child]:
        """The command `alacarte` with these arguments, killed if it outlives the block."""
        assert self._process.stdin is not None
        out, err = folder / "command.out", folder / "command.err"
        self._process.stdin.write(json.dumps([arguments, environment, str(out), str(err)]) + "\n")
        self._process.stdin.flush()
        child = Child(self.read(), out, err, self)
        try:
            yield child
        finally:
            if child._code is None:
                os.kill(child.pid, signal.SIGKILL)
                child.wait()


@contextmanager
def opened_nursery() -> Iterator[Nursery]:
    command = [sys.executable, "-m", "tests.trainer.worker.worker_processes"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Nursery(process)


def _serve() -> None:
    import trainer.worker.worker  # noqa: F401  # so that no child has to

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may let what it starts ignore Ctrl-C
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(*json.loads(line))
        _tell(child)
        _tell(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _become(arguments: list[str], environment: dict[str, str], out: str, err: str) -> None:
    """The command, until its end."""
    from alacarte.cli.main import main

    for file, stream in ((out, 1), (err, 2)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    os.environ.update(environment)
    sys.argv = ["alacarte", *arguments]
    code = 1
    try:
        main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # nothing of the process that it was forked from may run


if __name__ == "__main__":
    _serve()
