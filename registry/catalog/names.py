"""Names that people choose: any script, in Unicode NFC, and never in the form of an id."""

from uuid import UUID

from registry.datasets.member_names import MAX_QUOTED_LENGTH, is_control, quote, to_nfc
from registry.errors import Invalid, NotFound
from registry.ids import parse_id

MAX_LENGTH = 200
# Normalisation shortens a text by a bounded factor: a text longer than this would still be too long after it.
MAX_RAW_LENGTH = 20 * MAX_LENGTH


def validate_name(kind: str, text: str) -> str:
    """Return the name in its normal form; raise Invalid if it is not allowed."""
    name = validate_text(f"the name of a {kind}", text)
    if parse_id(name) is not None:
        raise Invalid(f"the name of a {kind} must not look like an id, as {quote(name)} does: choose another")
    return name


def validate_text(what: str, text: str, *, min_length: int = 1, max_length: int = MAX_LENGTH) -> str:
    """Return the text in NFC; raise Invalid, naming `what`, for a bad length, outer spaces or control characters."""
    if len(text) > MAX_RAW_LENGTH or not min_length <= len(text := to_nfc(text)) <= max_length:
        raise Invalid(f"{what} has {min_length} to {max_length} characters, not {len(text)}")
    if text != text.strip():
        raise Invalid(f"{what} must not begin or end with a space, as {quote(text)} does")
    if any(is_control(character) for character in text):
        raise Invalid(f"{what} must not have control characters or line breaks, as {quote(text)} has")
    return text


def parse_name_or_id(kind: str, name_or_id: str | UUID) -> str | UUID:
    """Return the id, or the name in its normal form; raise NotFound for a text that cannot be a name."""
    if isinstance(name_or_id, UUID):
        return name_or_id
    if (parsed := parse_id(name_or_id)) is not None:
        return parsed
    try:
        return validate_name(kind, name_or_id)
    except Invalid as error:
        raise NotFound(kind, name_or_id[:MAX_QUOTED_LENGTH]) from error
