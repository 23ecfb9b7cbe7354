"""What names may be: of members, which come from strangers, and of labels, which people will read."""

import re
import unicodedata

from registry.errors import DatasetRejected, LimitExceeded

MAX_QUOTED_LENGTH = 120
DRIVE = re.compile(r"[A-Za-z]:")
LITTER = frozenset({"__macosx", "thumbs.db", "desktop.ini", "icon\r", "@eadir", "$recycle.bin"})
DOCUMENT = re.compile(
    r"(readme|sources?|licen[cs]e|copying|notice|citation|changelog)(\.(md|txt|rst|html|cff))?", re.IGNORECASE
)
# These turn the reading direction of what follows, so that a label can look like another.
DIRECTION_CHANGES = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def quote(name: str) -> str:
    """The name in quotes, on one line, printable and short, whatever it contains."""
    return repr(name if len(name) <= MAX_QUOTED_LENGTH else name[:MAX_QUOTED_LENGTH] + "…")


def describe_error(error: Exception) -> str:
    """What a library says of its error, on one line, printable and short."""
    text = " ".join(str(error).split())[:MAX_QUOTED_LENGTH] or type(error).__name__
    return "".join(character if character.isprintable() else "?" for character in text)


def to_nfc(text: str) -> str:
    """The text in the one Unicode form in which equal-looking names are equal."""
    return unicodedata.normalize("NFC", text)


def split_path(name: str, *, max_length: int, max_depth: int) -> tuple[str, ...]:
    """The components of a relative name; anything that could lead out of its folder is refused."""
    if len(name) > max_length:
        raise LimitExceeded(f"the name {quote(name)} is longer than {max_length} characters: shorten it")
    if "\\" in name:
        raise DatasetRejected(f"{quote(name)} has a backslash in its name: use forward slashes")
    if name.startswith("/") or DRIVE.match(name):
        raise DatasetRejected(f"{quote(name)} is an absolute path: use paths inside the collection")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if len(parts) > max_depth:
        raise LimitExceeded(f"{quote(name)} lies deeper than {max_depth} levels: use fewer folders")
    if ".." in parts:
        raise DatasetRejected(f"{quote(name)} points outside the collection: remove the '..' from its path")
    return parts


def is_system_file(parts: tuple[str, ...]) -> bool:
    """Whether the file is hidden or was left there by an operating system."""
    return any(part.startswith(".") or part.casefold() in LITTER for part in parts)


def is_readme(part: str) -> bool:
    """Whether a file at the root is there for people: a README, a licence, a note on the source."""
    return DOCUMENT.fullmatch(part) is not None


def reject_unprintable(name: str) -> None:
    """Refuses names with control characters or bytes that are no text."""
    if any(_is_control(character) for character in name):
        raise DatasetRejected(f"{quote(name)} has control or undecodable characters in its name: rename it")


def normalize_label(text: str, *, origin: str, max_length: int) -> str:
    """The label as it is kept: NFC, no space around it, any script; `origin` says where it stands."""
    label = to_nfc(text.strip())
    if not label:
        raise DatasetRejected(f"{quote(origin)} has an empty label: give it one")
    if len(label) > max_length:
        raise LimitExceeded(
            f"the label {quote(label)} of {quote(origin)} is longer than {max_length} characters: shorten it"
        )
    if any(_is_control(character) for character in label):
        raise DatasetRejected(f"the label {quote(label)} of {quote(origin)} has control characters: remove them")
    return label


def _is_control(character: str) -> bool:
    # Joiners (also of category Cf) belong to several scripts and stay.
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in DIRECTION_CHANGES
    )
