"""Commands in processes of their own, which are told to end, in order, when the one that started them ends."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

WARD = "alacarte.cli.up.child_main"
GRACE_SECONDS = 60.0  # for giving back work and answering what is under way
TOLD_LINES = 5


class Child:
    """One command, whose messages go to a file."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = [sys.executable, "-m", WARD, *arguments]
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begins, or begins again."""
        self._let_go()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own command
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,  # stays open as long as this process lives, which is how the child knows
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for this process, which passes it on once
            )

    @property
    def pid(self) -> int | None:
        """Its process, if it was started."""
        return None if self._process is None else self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it is no more."""
        return self._process is not None and self._process.poll() is not None

    def last_words(self) -> str:
        """The end of what it told."""
        return " ".join(self.log.read_text(errors="replace").splitlines()[-TOLD_LINES:])

    def ask_to_end(self) -> None:
        """Tells it to finish what it has in hand."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        """Until it has ended, by force if it takes too long or this process is told again to end."""
        if self._process is None:
            return
        try:
            self._process.wait(GRACE_SECONDS)
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._let_go()

    def _let_go(self) -> None:
        """Closes what the ended process was held by."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


@contextmanager
def running(children: Sequence[Child]) -> Iterator[None]:
    """The children for as long as the block lasts; all are told to end before any is waited for."""
    try:
        for child in children:
            child.start()
        yield
    finally:
        for child in children:
            child.ask_to_end()
        for child in children:
            child.wait()
