"""Prints the tables and the summary of a benchmark, for people or as one JSON document."""

import json
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

FILE_WIDTH = 140  # of the tables where the output is not a terminal

TableRow = Mapping[str, float | int | str | None]


def print_tables(tables: Mapping[str, Sequence[TableRow]], summary: Mapping[str, object], as_json: bool) -> None:
    """Print the tables one below the other, and the summary last. In JSON, the rows of a single table are `rows`."""
    if as_json:
        keys = ["rows"] if len(tables) == 1 else [name.replace(" ", "_") for name in tables]
        print(json.dumps({**summary, **dict(zip(keys, map(list, tables.values()), strict=True))}, indent=2))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    for name, rows in tables.items():
        table = Table(*rows[0], title=name)
        for row in rows:
            table.add_row(*(_format(value) for value in row.values()))
        console.print(table)
    for name, value in summary.items():
        console.print(f"{name}: {_format(value)}")


def log(message: str) -> None:
    """Print a progress message to stderr."""
    print(message, file=sys.stderr, flush=True)


def _format(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
