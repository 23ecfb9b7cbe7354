"""Output of commands: tables for people or one JSON document for programs on stdout, messages on stderr."""

import io
import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from rich.console import Console
from rich.table import Table

Document = Mapping[str, object]

WIDTH_WITHOUT_TERMINAL = 160  # columns
# Unicode categories whose characters can control the terminal or break a line.
_CONTROL_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")


def print_message(line: str) -> None:
    """Print a message for the user on stderr; stdout is for the result."""
    sys.stderr.write(replace_control_characters(line) + "\n")


def print_json(document: object) -> None:
    """Print the document of a command with `--json`, in ASCII so that every name survives every locale."""
    from pydantic_core import to_jsonable_python  # for ids and times; not needed by `--help`

    sys.stdout.write(json.dumps(to_jsonable_python(document), indent=2, allow_nan=False) + "\n")


def print_list(kind: str, documents: Iterable[Document], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a list as a table of these columns, or whole as JSON under the name of its kind."""
    documents = list(documents)
    if as_json:
        print_json({kind: documents})
    elif documents:
        numbers = [name for name in columns if type(documents[0].get(name)) in (int, float)]
        print_table(columns, ([format_value(row.get(name)) for name in columns] for row in documents), numbers=numbers)
    else:
        sys.stdout.write(f"no {kind}\n")


def print_object(document: Document, *, as_json: bool) -> None:
    """Print all fields of one object."""
    if as_json:
        print_json(document)
    else:
        print_table(("field", "value"), [(name, format_value(value)) for name, value in document.items()])


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, numbers: Sequence[str] = ()
) -> None:
    """Print a table of plain texts; the columns in `numbers` are aligned to the right."""
    table = Table()
    for column in columns:
        is_id = column == "id" or column.endswith("_id")  # copied by users, so never wrapped
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold", no_wrap=is_id)
    for row in rows:
        table.add_row(*(replace_control_characters(cell) for cell in row))
    width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
    # Labels and file names are untrusted: rich must not read markup or emoji codes in them.
    console = Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)
    if title is not None:
        console.print(replace_control_characters(title), style="italic", soft_wrap=True)  # paths are never wrapped
    if isinstance(sys.stdout, io.TextIOWrapper):  # what the terminal's encoding lacks is escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    console.print(table)


def format_value(value: object) -> str:
    """Format a value of a document for people."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"  # UTC, as everywhere
    if isinstance(value, list):
        return ", ".join(format_value(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {format_value(item)}" for name, item in value.items())
    return str(value)


def format_percent(share: float) -> str:
    """Format a fraction of one as a percentage."""
    return f"{100 * share:.1f} %"


def replace_control_characters(text: str) -> str:
    """Replace characters that a terminal would execute by question marks."""
    return "".join("?" if unicodedata.category(char) in _CONTROL_CATEGORIES else char for char in text)
