"""The contenders: the service in three forms, and the bare model behind LitServe and behind FastAPI."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.output import TableRow
from bench.serving.fixtures import BenchTokens
from bench.serving.load import Contender, measure_load, run_client
from bench.serving.server_process import START_SECONDS, ServerProcess, is_healthy, start_server
from service.process_tuning import SPIN_COUNT
from tests.servers.processes import wait_until

LITSERVE = "litserve"
FASTAPI = "fastapi"
EMPTY = "empty engine"
TRACED = "traced"
MIXED = "mixed"
PROCESSES = "bench.serving.processes"


@dataclass(frozen=True)
class LitServeSettings:
    """LitServe's batch size, batch timeout, decoding threads and workers."""

    batch: int
    timeout_ms: float
    threads: int  # per worker
    workers: int = 1

    def __str__(self) -> str:
        each = f"batch {self.batch}, timeout {self.timeout_ms} ms, {self.threads} decoding threads"
        return f"{self.workers} workers, each with {each}" if self.workers > 1 else each

    def options(self) -> list[str]:
        """Return the settings as command-line options."""
        values = {"batch": self.batch, "timeout-ms": self.timeout_ms, "threads": self.threads, "workers": self.workers}
        return [part for name, value in values.items() for part in (f"--{name}", f"{value}")]


# All are tried; the service is compared with the fastest.
LITSERVE_CANDIDATES = (
    LitServeSettings(8, 5, 1),
    LitServeSettings(8, 5, 2),
    LitServeSettings(16, 5, 1),
    LitServeSettings(16, 5, 2),
    LitServeSettings(32, 10, 1),
    LitServeSettings(32, 10, 2),
    LitServeSettings(32, 50, 2),
    LitServeSettings(4, 5, 1, workers=2),
    LitServeSettings(8, 5, 1, workers=2),
    LitServeSettings(16, 10, 1, workers=2),
)
DEFAULT_LITSERVE = LitServeSettings(16, 5, 2)  # with --quick


@dataclass(frozen=True)
class ContenderFactory:
    """Starts contenders with the same backbone, pictures and registry."""

    folder: Path
    pictures: Path
    backbone: str
    weights: str
    tokens: BenchTokens

    @property
    def _model_options(self) -> list[str]:
        return ["--backbone", self.backbone, "--weights", self.weights]

    @property
    def _service_env(self) -> dict[str, str]:
        environment = {"ALACARTE_HOME": str(self.folder / "home"), "ALACARTE_WEIGHTS": self.weights}
        # GOMP_SPINCOUNT is set here too because torch may be imported before the service sets it.
        return {**environment, "ALACARTE_DATABASE": "", "ALACARTE_OBJECTS": "", "GOMP_SPINCOUNT": str(SPIN_COUNT)}

    def _start(
        self, name: str, module: str, options: list[str], env: dict[str, str], polls_when_idle: bool = False
    ) -> AbstractContextManager[ServerProcess]:
        return start_server(name, f"{PROCESSES}.{module}", options, self.folder, env, polls_when_idle)

    @contextmanager
    def litserve(self, settings: LitServeSettings) -> Iterator[ServerProcess]:
        """Start the bare model behind LitServe with these settings."""
        options = [*self._model_options, *settings.options()]
        with self._start(LITSERVE, "litserve_server", options, {}, polls_when_idle=True) as server:
            wait_until(lambda: is_healthy(server), "all workers of LitServe are ready", wait_s=START_SECONDS)
            yield server

    @contextmanager
    def contenders(self, settings: LitServeSettings, marks: Path) -> Iterator[dict[str, Contender]]:
        """Start all contenders; they are idle until measured."""
        admin, users = self.tokens.admin, self.tokens.users
        all_tokens = [token for group in zip(*users.values(), strict=True) for token in group]
        with ExitStack() as stack:
            service = stack.enter_context(
                start_server("service", "alacarte", ["serve"], self.folder, self._service_env)
            )
            empty = stack.enter_context(self._start(EMPTY, "empty_engine", [], self._service_env))
            traced = stack.enter_context(
                self._start(TRACED, "traced_service", ["--marks", str(marks)], self._service_env)
            )
            fastapi = stack.enter_context(self._start(FASTAPI, "fastapi_server", self._model_options, {}))
            contenders = {
                str(count): Contender(f"service, {count} prompts", service, tokens, admin)
                for count, tokens in users.items()
            }
            contenders[MIXED] = Contender("service, mixed users", service, all_tokens, admin)
            contenders[EMPTY] = Contender("service, empty engine", empty, users[20], admin)
            contenders[TRACED] = Contender("service, traced", traced, users[20])
            contenders[FASTAPI] = Contender("FastAPI, no batching", fastapi)
            contenders[LITSERVE] = Contender("LitServe, batching", stack.enter_context(self.litserve(settings)))
            contenders[LITSERVE].server.pause()
            yield contenders

    def best_litserve(self, connections: int, seconds: float) -> tuple[LitServeSettings, list[TableRow]]:
        """Return LitServe's fastest settings, and the rates of all."""
        rates: dict[LitServeSettings, float] = {}
        for settings in LITSERVE_CANDIDATES:
            with self.litserve(settings) as server:
                contender = Contender(LITSERVE, server)
                run_client(contender, self.pictures, connections, seconds=2.0)  # warm-up
                rates[settings] = measure_load(contender, self.pictures, connections, seconds).per_second
        rows: list[TableRow] = [{**asdict(one), "per_second": rate} for one, rate in rates.items()]
        return max(rates, key=lambda settings: rates[settings]), rows
