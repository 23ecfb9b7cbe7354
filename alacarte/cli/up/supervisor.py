"""The service in this process and the worker in a child process: started, watched and ended together."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import uvicorn

from alacarte.cli.errors import CommandError
from alacarte.cli.output import print_message
from alacarte.cli.up.worker_process import GRACE_SECONDS, WorkerProcess

TICK_SECONDS = 0.2
LAST_LINES = 5  # of the log, in an error message
JOIN_SECONDS = 5.0


class Stopping(Exception):
    """The service is ending, and with it the thread that monitors it."""


class Supervisor:
    """Runs uvicorn in the main thread and, in a thread of its own, a function that calls `tick` regularly."""

    def __init__(self, server: uvicorn.Server, worker: WorkerProcess, service_log: Path) -> None:
        self._server = server
        self._worker = worker
        self._service_log = service_log
        self._error: BaseException | None = None

    def run(self, monitor: Callable[[], None]) -> None:
        """Serve until SIGINT, SIGTERM or an error of `monitor`; then end the service and the worker."""
        for number in (signal.SIGINT, signal.SIGTERM):
            # uvicorn replaces this handler while it runs and calls it once more afterwards.
            signal.signal(number, lambda *_: self.stop())
        thread = threading.Thread(target=self._monitor, args=(monitor,), name="up", daemon=True)
        self._worker.start()
        try:
            thread.start()
            self._server.run()
        except SystemExit as error:  # uvicorn exits when the app or the socket cannot be opened
            raise CommandError(f"the service did not start, see {self._service_log}: {self._last_lines()}") from error
        finally:
            self._end(thread)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Let the service finish its requests and end; `tick` raises Stopping from now on."""
        self._server.should_exit = True

    def tick(self) -> None:
        """Wait a moment and restart the worker if it has ended; Stopping if the service is ending."""
        time.sleep(TICK_SECONDS)
        if self._server.should_exit:
            raise Stopping
        if self._worker.restart_if_ended():
            print_message(f"the worker ended by itself and is being restarted: see {self._worker.log}")

    def _monitor(self, monitor: Callable[[], None]) -> None:
        try:
            monitor()
        except Stopping:
            pass
        except BaseException as error:  # raised again in the main thread
            self._error = error
        finally:
            self.stop()
            self._worker.terminate()

    def _end(self, thread: threading.Thread) -> None:
        """End the thread and the worker; another Ctrl-C kills the worker."""
        self.stop()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        grace_seconds = 0.0 if self._server.force_exit else GRACE_SECONDS
        try:
            thread.join(JOIN_SECONDS)  # no longer: it may be in a download
        except KeyboardInterrupt:
            grace_seconds = 0.0
        self._worker.terminate()
        self._worker.wait(grace_seconds)

    def _last_lines(self) -> str:
        return " ".join(self._service_log.read_text(errors="replace").splitlines()[-LAST_LINES:])
