"""Names and ids, told apart as the service does."""

import unicodedata
from string import hexdigits
from uuid import UUID

DIGEST_LENGTH = 64


def is_id(text: str) -> bool:
    """Whether the text is an id, and so no name."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def is_digest(text: str) -> bool:
    """Whether the text is the digest of a picture's bytes."""
    return len(text) == DIGEST_LENGTH and not set(text.lower()) - set(hexdigits)


def kept_form(name: str) -> str:
    """The name as the service keeps it: two ways to write an accent are one name."""
    return unicodedata.normalize("NFC", name)
