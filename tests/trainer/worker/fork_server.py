"""A fork server: commands in processes forked from one that has imported torch, which takes longer than a test.

Run as a module, it reads a command's arguments, environment and output files from each line, forks, and writes the
process id and, after its end, the exit code.
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
    """A command in a forked process."""

    pid: int
    out: Path
    err: Path
    _server: "ForkServer"
    _code: int | None = None

    def wait(self) -> int:
        """Return the exit code, which is negative if a signal ended the process."""
        if self._code is None:
            self._code = self._server.read()
        return self._code


class ForkServer:
    """The process that commands are forked from, one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    @contextmanager
    def command(self, arguments: list[str], environment: dict[str, str], folder: Path) -> Iterator[Child]:
        """Run `alacarte` with these arguments; it is killed at the end of the block if it still runs."""
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
def start_fork_server() -> Iterator[ForkServer]:
    command = [sys.executable, "-m", "tests.trainer.worker.fork_server"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield ForkServer(process)


def _serve() -> None:
    import trainer.worker.worker  # noqa: F401  # imported once, before the forks

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start processes that ignore Ctrl-C
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run_command(*json.loads(line))
        _write_number(child)
        _write_number(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _write_number(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _run_command(arguments: list[str], environment: dict[str, str], out: str, err: str) -> None:
    """Run the command and exit."""
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
        os._exit(code)  # without the exit handlers of the fork server


if __name__ == "__main__":
    _serve()
