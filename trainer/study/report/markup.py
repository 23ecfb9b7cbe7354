"""Markup in which nobody can forget to escape: all text is escaped as it is put in, unless it is Markup already."""

import re
from html import escape

# What neither HTML nor XML can carry: most control characters, and halves of characters.
_UNCARRIED = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Markup(str):
    """Text that goes into a page as it is; whatever is made of it by other means is plain text again."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """An element with its children; an attribute of None is left out, and `font_size` is font-size, `class_` class."""
    names = {key: key.rstrip("_").replace("_", "-") for key in attributes}
    said = "".join(f' {names[key]}="{_escaped(str(value))}"' for key, value in attributes.items() if value is not None)
    return Markup(f"<{name}{said}>{join(*children)}</{name}>")


def join(*parts: str, between: str = "") -> Markup:
    """The parts in one: Markup as it is, other text escaped."""
    return Markup(between.join(part if isinstance(part, Markup) else _escaped(part) for part in parts))


def _escaped(text: str) -> str:
    return escape(_UNCARRIED.sub(REPLACEMENT, text))
