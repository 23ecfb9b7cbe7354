"""Several tables and a summary, for people or as one JSON document."""

import json
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

WIDTH = 140

Line = Mapping[str, float | int | str | None]


def show_tables(tables: Mapping[str, Sequence[Line]], summary: Mapping[str, object], as_json: bool) -> None:
    """Print the tables one below the other, and the summary last."""
    if as_json:
        print(
            json.dumps({**summary, **{name.replace(" ", "_"): list(lines) for name, lines in tables.items()}}, indent=2)
        )
        return
    console = Console()
    if not console.is_terminal:  # a file is as wide as its lines
        console = Console(width=WIDTH)
    for name, lines in tables.items():
        table = Table(*lines[0], title=name)
        for line in lines:
            table.add_row(*(_cell(value) for value in line.values()))
        console.print(table)
    for name, value in summary.items():
        console.print(f"{name}: {_cell(value)}")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
