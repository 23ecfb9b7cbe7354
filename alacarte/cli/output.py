"""What commands show of each thing: one document for a program, the same in a table for a person."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from uuid import UUID

from alacarte.cli.tables import print_json, print_table

Document = Mapping[str, object]


def document_of(thing: object, *names: str) -> dict[str, object]:
    """These attributes of a thing, as JSON has them."""
    return {name: plain(getattr(thing, name)) for name in names}


def facts_of(thing: object) -> dict[str, object]:
    """All members of a frozen value, as JSON has them."""
    assert is_dataclass(thing)
    return {one.name: plain(getattr(thing, one.name)) for one in fields(thing)}


def plain(value: object) -> object:
    """The value as JSON has it: ids and times as texts, frozen values as their members."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return facts_of(value)
    return value


def print_list(kind: str, documents: Iterable[Document], columns: Sequence[str], *, as_json: bool) -> None:
    """A list of things of one kind, in these columns; all of their facts in JSON."""
    documents = list(documents)
    if as_json:
        print_json({kind: documents})
    elif documents:
        numbers = [name for name in columns if type(documents[0].get(name)) in (int, float)]
        print_table(columns, ([told(row.get(name)) for name in columns] for row in documents), numbers=numbers)
    else:
        print_table(columns, [], title=f"no {kind}")


def print_one(document: Document, *, as_json: bool, title: str | None = None) -> None:
    """All facts of one thing."""
    if as_json:
        print_json(document)
    else:
        print_table(("fact", "value"), [(name, told(value)) for name, value in document.items()], title=title)


def told(value: object) -> str:
    """A value for a person to read."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(told(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {told(item)}" for name, item in value.items())
    return str(value)
