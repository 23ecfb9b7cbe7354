"""Who is measured: the service three times over, and the bare model behind LitServe, behind FastAPI, and alone."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.output import Line
from bench.serving.fixtures import People
from bench.serving.load import Contender, ask, load
from bench.serving.server_process import START_SECONDS, Server, is_healthy, served
from service.process_tuning import SPIN_COUNT
from tests.servers.processes import until

LITSERVE = "litserve"
FASTAPI = "fastapi"
EMPTY = "empty engine"
TRACED = "traced"
MIXED = "mixed"


@dataclass(frozen=True)
class LitServeSetting:
    """What LitServe is told: pictures in a batch, how long to wait for them, threads that decode them, and workers."""

    batch: int
    timeout_ms: float
    threads: int  # of each worker
    workers: int = 1

    def __str__(self) -> str:
        each = f"batch {self.batch}, timeout {self.timeout_ms} ms, {self.threads} threads that decode"
        return f"{self.workers} workers, each with {each}" if self.workers > 1 else each

    def options(self) -> list[str]:
        """As its command line has them."""
        named = {"batch": self.batch, "timeout-ms": self.timeout_ms, "threads": self.threads, "workers": self.workers}
        return [part for name, value in named.items() for part in (f"--{name}", f"{value}")]


# Tried once; the best of them is what the service is held against.
LITSERVE_SETTINGS = (
    LitServeSetting(8, 5, 1),
    LitServeSetting(8, 5, 2),
    LitServeSetting(16, 5, 1),
    LitServeSetting(16, 5, 2),
    LitServeSetting(32, 10, 1),
    LitServeSetting(32, 10, 2),
    LitServeSetting(32, 50, 2),
    LitServeSetting(4, 5, 1, workers=2),
    LitServeSetting(8, 5, 1, workers=2),
    LitServeSetting(16, 10, 1, workers=2),
)
USUAL = LitServeSetting(16, 5, 2)  # where there is no time to try


@dataclass(frozen=True)
class Scene:
    """What all contenders share."""

    folder: Path
    pictures: Path
    backbone: str
    weights: str
    people: People

    @property
    def _model(self) -> list[str]:
        return ["--backbone", self.backbone, "--weights", self.weights]

    @property
    def _service_env(self) -> dict[str, str]:
        ours = {"ALACARTE_HOME": str(self.folder / "home"), "ALACARTE_WEIGHTS": self.weights}
        # Also where torch is imported before the service could say it.
        return {**ours, "ALACARTE_DATABASE": "", "ALACARTE_OBJECTS": "", "GOMP_SPINCOUNT": str(SPIN_COUNT)}

    @contextmanager
    def litserve(self, setting: LitServeSetting) -> Iterator[Server]:
        """The bare model behind LitServe, set so."""
        module = "bench.serving.processes.litserve_server"
        options = [*self._model, *setting.options()]
        with served(LITSERVE, module, options, self.folder, {}, is_restless=True) as server:
            until(lambda: is_healthy(server), "all workers of LitServe are there", wait_s=START_SECONDS)
            yield server

    @contextmanager
    def contenders(self, setting: LitServeSetting, marks: Path) -> Iterator[dict[str, Contender]]:
        """All of them, listening and still."""
        admin, users = self.people.admin, self.people.users
        everyone = [token for group in zip(*users.values(), strict=True) for token in group]
        with ExitStack() as stack:
            entry = stack.enter_context(served("service", "alacarte", ["serve"], self.folder, self._service_env))
            empty, traced = (
                stack.enter_context(
                    served(name, f"bench.serving.processes.{module}", options, self.folder, self._service_env)
                )
                for name, module, options in (
                    (EMPTY, "empty_engine", []),
                    (TRACED, "traced_service", ["--marks", str(marks)]),
                )
            )
            fastapi = stack.enter_context(
                served(FASTAPI, "bench.serving.processes.fastapi_server", self._model, self.folder, {})
            )
            found = {
                str(count): Contender(f"service, {count} prompts", entry, tokens, admin)
                for count, tokens in users.items()
            }
            found[MIXED] = Contender("service, mixed users", entry, everyone, admin)
            found[EMPTY] = Contender("service, empty engine", empty, users[20], admin)
            found[TRACED] = Contender("service, traced", traced, users[20])
            found[FASTAPI] = Contender("FastAPI, no batching", fastapi)
            found[LITSERVE] = Contender("LitServe, batching", stack.enter_context(self.litserve(setting)))
            found[LITSERVE].server.pause()
            yield found

    def best_litserve(self, connections: int, seconds: float) -> tuple[LitServeSetting, list[Line]]:
        """The setting of LitServe that answers most, and what each of them did."""
        rates: dict[LitServeSetting, float] = {}
        for setting in LITSERVE_SETTINGS:
            with self.litserve(setting) as server:
                contender = Contender(LITSERVE, server)
                ask(contender, self.pictures, connections, seconds=2.0)  # does not count
                rates[setting] = load(contender, self.pictures, connections, seconds).per_second
        lines: list[Line] = [{**asdict(one), "per_second": rate} for one, rate in rates.items()]
        return max(rates, key=lambda setting: rates[setting]), lines
