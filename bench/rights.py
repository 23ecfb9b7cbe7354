"""What a token may use, asked of SQL, over a bare round trip: `python -m bench.rights [--json] [--quick]`.

In a registry with 1,000 sources and 10,000 users, on SQLite and on PostgreSQL.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import cycle, product
from pathlib import Path
from uuid import UUID

from sqlalchemy import text

from bench.timing import show
from registry.access.tokens import parse_token
from registry.access.usable_prompts import read_usable_prompts
from registry.db import migrate
from registry.db.database import Database
from tests.registry.access.fixtures import RELEASE, TASK, seed
from tests.servers.postgres import serve_postgres

WISHES = 3
GRANTS = (3, 20)  # to each user, and as many to each group; half of the users are in one
BARE = "bare round trip"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=int, default=1000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a tenth of the users, and fewer calls")
    options = parser.parse_args()
    users, calls = (options.users // 10, 300) if options.quick else (options.users, 2000)

    lines: list[dict[str, float | int | str | None]] = []
    homes: dict[str, Callable[[], AbstractContextManager[Database]]] = {"sqlite": _sqlite, "postgresql": _postgres}
    for kind, grants in product(homes, GRANTS):
        with homes[kind]() as database:
            granted = seed(database, options.sources, users, grants)
            wishes = {token: sources[:WISHES] for token, sources in granted.items()}
            prompts = statistics.mean(
                len(read_usable_prompts(database, parse_token(token), task=TASK).prompts) for token in wishes
            )
            times = measure(contenders(database, wishes), list(wishes), calls)
        lines += [line_of(kind, prompts, name, seconds, times[BARE]) for name, seconds in times.items()]
    summary: dict[str, object] = {"sources": options.sources, "users": users, "calls": calls}
    show("what a token may use, over a bare round trip", lines, summary, options.json)


def contenders(database: Database, wishes: Mapping[str, Sequence[UUID]]) -> dict[str, Callable[[str], object]]:
    """What takes turns, each called with the text of a token."""

    def bare(token: str) -> None:  # noqa: ARG001  # nobody is asked for
        database.fetch_rows(text("SELECT 1"), {})

    return {
        BARE: bare,
        "all that is usable": lambda token: read_usable_prompts(database, parse_token(token), task=TASK),
        f"{WISHES} sources of it": lambda token: read_usable_prompts(
            database, parse_token(token), task=TASK, sources=wishes[token]
        ),
        "a release of it": lambda token: read_usable_prompts(database, parse_token(token), task=TASK, release=RELEASE),
    }


def measure(runs: Mapping[str, Callable[[str], object]], tokens: Sequence[str], calls: int) -> dict[str, list[float]]:
    """The seconds of every call, after a tenth as many that do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    warmups = calls // 10
    for turn, token in zip(range(warmups + calls), cycle(tokens), strict=False):
        for name, run in runs.items():
            start = time.perf_counter()
            run(token)
            if turn >= warmups:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def line_of(
    kind: str, prompts: float, name: str, seconds: list[float], bare: list[float]
) -> dict[str, float | int | str | None]:
    """The line of the table for one contender."""
    p50 = statistics.median(seconds)
    return {
        "database": kind,
        "prompts": round(prompts),
        "asked": name,
        "p50_ms": p50 * 1000,
        "p99_ms": statistics.quantiles(seconds, n=100)[98] * 1000,
        "over_bare": p50 / statistics.median(bare),
    }


@contextmanager
def _sqlite() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder, _migrated(f"sqlite:///{Path(folder) / 'registry.db'}") as database:
        yield database


@contextmanager
def _postgres() -> Iterator[Database]:
    with serve_postgres() as server, _migrated(server.make_database()) as database:
        yield database


@contextmanager
def _migrated(url: str) -> Iterator[Database]:
    database = Database(url)
    migrate.upgrade(database)
    try:
        yield database
    finally:
        database.close()


if __name__ == "__main__":
    main()
