"""The service and the worker of one machine, kept alive together."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from alacarte.cli.errors import CommandRefused
from alacarte.cli.up.processes import Child, running
from alacarte.client import Client
from service.settings import ServiceSettings

START_SECONDS = 120.0
TICK_SECONDS = 0.2
REST_SECONDS = 5.0  # before a worker that ended by itself is started again

Say = Callable[[str], None]


class Household:
    """A service that must live, and a worker that is started again if it does not."""

    def __init__(self, service: Child, worker: Child, url: str, say: Say) -> None:
        self._service = service
        self._worker = worker
        self.url = url
        self._say = say
        self._restart_at: float | None = None

    def tick(self) -> None:
        """A moment passes; whatever ended by itself is seen to."""
        time.sleep(TICK_SECONDS)
        if self._service.has_ended:
            raise CommandRefused(f"the service ended by itself, see {self._service.log}: {self._service.last_words()}")
        if not self._worker.has_ended:
            return
        if self._restart_at is None:
            self._say(f"the worker ended by itself, and is started again: see {self._worker.log}")
            self._restart_at = time.monotonic() + REST_SECONDS
        elif time.monotonic() > self._restart_at:
            self._restart_at = None
            self._worker.start()

    def wait_until_ready(self) -> None:
        """Until the service answers."""
        end = time.monotonic() + START_SECONDS
        with Client(self.url, token=None, timeout=5.0) as client:
            while not client.is_ready():
                self.tick()
                if time.monotonic() > end:
                    raise CommandRefused(
                        f"the service did not get ready in {START_SECONDS:g} s: see {self._service.log}"
                    )


@contextmanager
def kept(settings: ServiceSettings, environment: Mapping[str, str], say: Say) -> Iterator[Household]:
    """Both, with these settings, until the block ends."""
    logs = settings.home / "log"
    told = {
        **environment,
        "ALACARTE_HOME": str(settings.home),
        "ALACARTE_LOG_LEVEL": environment.get("ALACARTE_LOG_LEVEL", "warning"),
    }
    training = ["work", "--device", settings.device, "--dtype", settings.dtype]
    if settings.weights is not None:
        told["ALACARTE_WEIGHTS"] = settings.weights
        training += ["--weights", settings.weights]
    serving = ["serve", "--host", settings.host, "--port", str(settings.port)]
    service = Child("service", serving, told, _fresh(logs / "service.log"))
    worker = Child("worker", training, told, _fresh(logs / "worker.log"))
    with running([service, worker]):
        yield Household(service, worker, url_of(settings), say)


def url_of(settings: ServiceSettings) -> str:
    """Where the service is reached from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(settings.host, settings.host)  # noqa: S104  # compared only
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def _fresh(log: Path) -> Path:
    log.unlink(missing_ok=True)
    return log
