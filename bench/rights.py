"""The SQL query for what a token may use, over a bare round trip: `python -m bench.rights [--json] [--quick]`.

The registry has 1,000 sources and 10,000 users, on SQLite and on PostgreSQL.
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

from bench.output import TableRow, print_tables
from registry.access.tokens import parse_token
from registry.access.usable_prompts import read_usable_prompts
from registry.db import migrate
from registry.db.database import Database
from tests.registry.access.fixtures import RELEASE, TASK, seed
from tests.servers.postgres import serve_postgres

REQUESTED_SOURCES = 3
GRANTS = (3, 20)  # to each user and to each group; half of the users are in a group
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

    rows: list[TableRow] = []
    databases: dict[str, Callable[[], AbstractContextManager[Database]]] = {"sqlite": _sqlite, "postgresql": _postgres}
    for kind, grants in product(databases, GRANTS):
        with databases[kind]() as database:
            granted = seed(database, options.sources, users, grants)
            requested = {token: sources[:REQUESTED_SOURCES] for token, sources in granted.items()}
            prompts = statistics.mean(
                len(read_usable_prompts(database, parse_token(token), task=TASK).prompts) for token in requested
            )
            times = measure(contenders(database, requested), list(requested), calls)
        rows += [make_row(kind, prompts, name, seconds, times[BARE]) for name, seconds in times.items()]
    summary: dict[str, object] = {"sources": options.sources, "users": users, "calls": calls}
    print_tables({"what a token may use": rows}, summary, options.json)


def contenders(database: Database, requested: Mapping[str, Sequence[UUID]]) -> dict[str, Callable[[str], object]]:
    """Return the queries to measure, each called with the text of a token."""

    def bare(token: str) -> None:  # noqa: ARG001  # the same signature as the others
        database.fetch_rows(text("SELECT 1"), {})

    return {
        BARE: bare,
        "all usable prompts": lambda token: read_usable_prompts(database, parse_token(token), task=TASK),
        f"{REQUESTED_SOURCES} of the sources": lambda token: read_usable_prompts(
            database, parse_token(token), task=TASK, sources=requested[token]
        ),
        "a release": lambda token: read_usable_prompts(database, parse_token(token), task=TASK, release=RELEASE),
    }


def measure(runs: Mapping[str, Callable[[str], object]], tokens: Sequence[str], calls: int) -> dict[str, list[float]]:
    """Return the seconds of every call, after a tenth as many uncounted warm-ups."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    warmups = calls // 10
    for turn, token in zip(range(warmups + calls), cycle(tokens), strict=False):
        for name, run in runs.items():
            start = time.perf_counter()
            run(token)
            if turn >= warmups:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def make_row(kind: str, prompts: float, name: str, seconds: list[float], bare: list[float]) -> TableRow:
    """Return the row of the table for one query."""
    p50 = statistics.median(seconds)
    return {
        "database": kind,
        "prompts": round(prompts),
        "query": name,
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
