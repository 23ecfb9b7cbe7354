"""What people may call things: any script, one Unicode form, and never anything that reads as an id."""

import re
import unicodedata
from uuid import UUID

from registry.datasets.member_names import DIRECTION_CHANGES, MAX_QUOTED_LENGTH, quote, to_nfc
from registry.errors import Invalid, NotFound

MAX_LENGTH = 200
# Composing can only shorten a text so far: what is longer than this before it is too long after it.
MAX_RAW_LENGTH = 20 * MAX_LENGTH
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def validate_name(kind: str, text: str) -> str:
    """The name as it is kept; Invalid if it cannot be one."""
    name = validate_text(f"the name of a {kind}", text)
    if _ID.fullmatch(name):
        raise Invalid(f"the name of a {kind} must not look like an id, as {quote(name)} does: choose another")
    return name


def validate_text(what: str, text: str, *, min_length: int = 1, max_length: int = MAX_LENGTH) -> str:
    """The text in NFC, on one line, without space around it; Invalid otherwise, and `what` says of what."""
    if len(text) > MAX_RAW_LENGTH or not min_length <= len(text := to_nfc(text)) <= max_length:
        raise Invalid(f"{what} has {min_length} to {max_length} characters, not {len(text)}")
    if text != text.strip():
        raise Invalid(f"{what} must not begin or end with a space, as {quote(text)} does")
    if any(_is_control(character) for character in text):
        raise Invalid(f"{what} must not have control characters or line breaks, as {quote(text)} has")
    return text


def parse_id(text: str) -> UUID | None:
    """The id that the text spells out; None if it is none, and so may be a name."""
    return UUID(text) if _ID.fullmatch(text) else None


def parse_name_or_id(kind: str, name_or_id: str | UUID) -> str | UUID:
    """The id, or the name in its kept form; NotFound for a text that nothing can be called."""
    if isinstance(name_or_id, UUID):
        return name_or_id
    if (found := parse_id(name_or_id)) is not None:
        return found
    try:
        return validate_name(kind, name_or_id)
    except Invalid as error:
        raise NotFound(kind, name_or_id[:MAX_QUOTED_LENGTH]) from error


def _is_control(character: str) -> bool:
    # Joiners belong to several scripts and stay; what turns the reading direction makes one name look like another.
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in DIRECTION_CHANGES
    )
