"""A command that ends with the process that started it, however that ended; run as a module with its arguments."""

import os
import signal
import threading

from alacarte.cli.main import main as command

STDIN = 0


def main() -> None:
    """The command, with an eye on who started it."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    command()


def _end_with_parent() -> None:
    # Nothing is ever written to it: it can be read once its other end is gone, and then there is nothing to read.
    while os.read(STDIN, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
