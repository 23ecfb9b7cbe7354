"""What a command answers on stdout: a table for a person, or one JSON document for a program."""

import io
import json
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from alacarte.cli.errors import printable

UNSEEN_WIDTH = 160  # columns, where no terminal says how many it has


def say(line: str) -> None:
    """Tell the person something on the way; stdout is for the answer alone."""
    sys.stderr.write(printable(line) + "\n")


def print_json(document: object) -> None:
    """The one document of a command with `--json`; ASCII, so that any name survives any locale."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def _write_anywhere() -> None:
    """What the terminal's encoding lacks is spelled out: what was done must be told, whatever the locale."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, numbers: Sequence[str] = ()
) -> None:
    """A table of texts as they are, without any markup; the columns in `numbers` are set to the right."""
    table = Table()
    for column in columns:
        is_id = column == "id" or column.endswith("_id")  # which is for copying
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold", no_wrap=is_id)
    for row in rows:
        table.add_row(*(printable(cell) for cell in row))
    width = None if sys.stdout.isatty() else UNSEEN_WIDTH
    # Labels and file names are texts of strangers: nothing in them is a style or an emoji.
    console = Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)
    if title is not None:
        console.print(printable(title), style="italic", soft_wrap=True)  # a path is never broken
    _write_anywhere()
    console.print(table)


def percent(share: float) -> str:
    """A share of one for a person to read."""
    return f"{100 * share:.1f} %"
