"""From JSON to frozen values: by the types of their fields, whatever else a newer service tells beside them."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from alacarte._client.errors import AnswerUnreadable

T = TypeVar("T")


def read(kind: type[T], document: object) -> T:
    """The value that the document tells; AnswerUnreadable if it tells something else."""
    try:
        value: T = _read(kind, document)
    except (KeyError, TypeError, ValueError) as error:
        raise AnswerUnreadable(
            f"the answer tells no {kind.__name__.lower()}: the service is of another version, or something else"
        ) from error
    return value


def _read(kind: Any, told: Any) -> Any:  # Any: types as they are written, and what JSON has
    if get_origin(kind) in (UnionType, tuple) or kind in (datetime, float):
        return _read_special(kind, told)
    if is_dataclass(kind):
        return _read_members(kind, told)
    if not isinstance(told, dict if get_origin(kind) is Mapping else kind):
        raise TypeError(kind)
    return told


def _read_members(kind: Any, told: Any) -> Any:
    if not isinstance(told, dict):
        raise TypeError(kind)
    hints = _hints(kind)
    there = [one.name for one in fields(kind) if one.name in told or one.default is MISSING]
    return kind(**{name: _read(hints[name], told[name]) for name in there})


def _read_special(kind: Any, told: Any) -> Any:
    if get_origin(kind) is UnionType:
        [inner] = [choice for choice in get_args(kind) if choice is not NoneType]
        return None if told is None else _read(inner, told)
    if get_origin(kind) is tuple:
        if not isinstance(told, list):
            raise TypeError(kind)
        return tuple(_read(get_args(kind)[0], item) for item in told)
    if kind is datetime:
        return datetime.fromisoformat(told)
    return float(told)


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)
