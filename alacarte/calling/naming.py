"""Names and ids, told apart as the service does."""

import unicodedata
from uuid import UUID


def is_id(text: str) -> bool:
    """Whether the text is an id, and so no name."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def kept_form(name: str) -> str:
    """The name as the service keeps it: two ways to write an accent are one name."""
    return unicodedata.normalize("NFC", name)
