"""How wide text will be, guessed without a font: rather too wide than too narrow, so that what fits here fits there."""

import unicodedata

_NARROW = frozenset("iIjlt.,:;'|!()[]{}f r/\\-\N{NO-BREAK SPACE}")
_BROAD = frozenset("mwMW@%×+=<>Ææ©®¼½¾")
_LAST_LATIN = "\u024f"


def width_of(text: str, size: float) -> float:
    """The room that the text takes in one line, at most, if its letters are of this size."""
    return size * sum(_width(character) for character in text)


def fit(text: str, room: float, size: float) -> str:
    """The text on one line, cut with an ellipsis if it is too long for the room."""
    line = " ".join(text.split())
    if width_of(line, size) <= room:
        return line
    left = room - width_of("…", size)
    kept = 0
    for character in line:
        left -= width_of(character, size)
        if left < 0:
            break
        kept += 1
    return line[:kept].rstrip() + "…"


def _width(character: str) -> float:
    """In parts of the letters' size, as a broad sans-serif has it."""
    base = unicodedata.normalize("NFD", character)[0]  # an accent adds no width
    if unicodedata.combining(base):
        return 0.0
    if base in _NARROW:
        return 0.42
    if base in _BROAD or base > _LAST_LATIN or not base.isprintable():  # of which nothing is known
        return 1.0
    return 0.75 if base.isupper() else 0.64
