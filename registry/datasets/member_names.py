"""Checks on names and labels from untrusted datasets, and how to show them in messages."""

import re
import unicodedata

from registry.errors import DatasetRejected, LimitExceeded

MAX_QUOTED_LENGTH = 120
DRIVE = re.compile(r"[A-Za-z]:")
SYSTEM_FILES = frozenset({"__macosx", "thumbs.db", "desktop.ini", "icon\r", "@eadir", "$recycle.bin"})
README = re.compile(
    r"(readme|sources?|licen[cs]e|copying|notice|citation|changelog)(\.(md|txt|rst|html|cff))?", re.IGNORECASE
)
# These change the reading direction of what follows, so that a label can look like another.
DIRECTION_CHANGES = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def quote(name: str) -> str:
    """Return the name in quotes, on one line, printable and short."""
    return repr(name if len(name) <= MAX_QUOTED_LENGTH else name[:MAX_QUOTED_LENGTH] + "…")


def describe_error(error: Exception) -> str:
    """Return a library's error message on one line, printable and short."""
    text = " ".join(str(error).split())[:MAX_QUOTED_LENGTH] or type(error).__name__
    return "".join(character if character.isprintable() else "?" for character in text)


def to_nfc(text: str) -> str:
    """Return the text in the Unicode form in which equal-looking names are equal."""
    return unicodedata.normalize("NFC", text)


def split_path(name: str, *, max_length: int, max_depth: int) -> tuple[str, ...]:
    """Return the components of a relative name; reject anything that could lead out of its folder."""
    if len(name) > max_length:
        raise LimitExceeded(f"the name {quote(name)} is longer than {max_length} characters: shorten it")
    if "\\" in name:
        raise DatasetRejected(f"{quote(name)} has a backslash in its name: use forward slashes")
    if name.startswith("/") or DRIVE.match(name):
        raise DatasetRejected(f"{quote(name)} is an absolute path: use paths inside the dataset")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if len(parts) > max_depth:
        raise LimitExceeded(f"{quote(name)} is nested deeper than {max_depth} levels: use fewer folders")
    if ".." in parts:
        raise DatasetRejected(f"{quote(name)} points outside the dataset: remove the '..' from its path")
    return parts


def is_system_file(parts: tuple[str, ...]) -> bool:
    """Whether the file is hidden or was left there by an operating system."""
    return any(part.startswith(".") or part.casefold() in SYSTEM_FILES for part in parts)


def is_readme(part: str) -> bool:
    """Whether a file at the root is a README, a licence or a similar note."""
    return README.fullmatch(part) is not None


def reject_unprintable(name: str) -> None:
    """Reject names with control characters or undecodable bytes."""
    if any(is_control(character) for character in name):
        raise DatasetRejected(f"{quote(name)} has control or undecodable characters in its name: rename it")


def normalize_label(text: str, *, origin: str, max_length: int) -> str:
    """Return the label in NFC without surrounding space; `origin` is where it was read, for messages."""
    label = to_nfc(text.strip())
    if not label:
        raise DatasetRejected(f"{quote(origin)} has an empty label: give it one")
    if len(label) > max_length:
        raise LimitExceeded(
            f"the label {quote(label)} of {quote(origin)} is longer than {max_length} characters: shorten it"
        )
    if any(is_control(character) for character in label):
        raise DatasetRejected(f"the label {quote(label)} of {quote(origin)} has control characters: remove them")
    return label


def is_control(character: str) -> bool:
    """Whether the character is a control character or a line break, or changes the reading direction."""
    # Joiners (of category Cf) belong to several scripts and are allowed.
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in DIRECTION_CHANGES
    )
