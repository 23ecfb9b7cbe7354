"""The names of objects: what a key may look like, and where each thing that the registry keeps lies."""

import re
from dataclasses import dataclass
from uuid import UUID

from registry.ids import id_timestamp, new_id

MAX_KEY_CHARS = 512
# A folder's file names have at most 255 bytes, and an unfinished file's name carries a key's last segment and more.
MAX_SEGMENT_CHARS = 200

_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SHARD = rf"sources/(?P<source>{_ID})/shards/(?P<shard>{_ID})"
_SAMPLE_KEY = re.compile(rf"{_SHARD}/samples/(?P<digest>{_DIGEST.pattern})")
_PROMPT_KEY = re.compile(rf"{_SHARD}/prompts/(?P<generation>0|[1-9][0-9]*)/(?P<claim>{_ID})\.safetensors")
_PROBE_KEY = re.compile(rf"check-(?P<id>{_ID})")


class InvalidKey(ValueError):
    """A key or prefix that no store may be asked for: the caller is at fault, not the user."""


@dataclass(frozen=True)
class SampleKey:
    """A key speaks of one picture of a shard."""

    source: UUID
    shard: UUID
    digest: str


@dataclass(frozen=True)
class PromptKey:
    """A key speaks of a prompt, of one generation of a shard, made under one claim of its lease."""

    source: UUID
    shard: UUID
    generation: int
    claim: UUID


ObjectKey = SampleKey | PromptKey


def source_prefix(source: UUID) -> str:
    """Below it lies everything of a source."""
    return f"sources/{source}/"


def shard_prefix(source: UUID, shard: UUID) -> str:
    """Below it lies everything of a shard."""
    return f"{source_prefix(source)}shards/{shard}/"


def sample_key(source: UUID, shard: UUID, digest: str) -> str:
    """Where a picture's bytes lie; the digest is the SHA-256 of them, in lower hexadecimal."""
    if not _DIGEST.fullmatch(digest):
        raise InvalidKey(f"{digest!r} is no SHA-256 in lower hexadecimal")
    return f"{shard_prefix(source, shard)}samples/{digest}"


def prompts_prefix(source: UUID, shard: UUID, generation: int) -> str:
    """Below it lie the prompts of one generation of a shard."""
    if generation < 0:
        raise InvalidKey(f"{generation} is no generation")
    return f"{shard_prefix(source, shard)}prompts/{generation}/"


def prompt_key(source: UUID, shard: UUID, generation: int, claim: UUID) -> str:
    """Where a prompt lies: two workers that both believe they hold the shard never write to one key."""
    return f"{prompts_prefix(source, shard, generation)}{claim}.safetensors"


def parse_key(key: str) -> ObjectKey | None:
    """What the key speaks of, if one of the functions above made it."""
    if found := _SAMPLE_KEY.fullmatch(key):
        return SampleKey(UUID(found["source"]), UUID(found["shard"]), found["digest"])
    if found := _PROMPT_KEY.fullmatch(key):
        return PromptKey(UUID(found["source"]), UUID(found["shard"]), int(found["generation"]), UUID(found["claim"]))
    return None


def probe_key() -> str:
    """Where a store is tried out for a moment; the key tells since when, should whoever tries it die."""
    return f"check-{new_id()}"


def probe_timestamp(key: str) -> float | None:
    """The Unix time at which the key was made to try a store out; None if it was not."""
    found = _PROBE_KEY.fullmatch(key)
    return None if found is None else id_timestamp(UUID(found["id"]))


def validate_key(key: str) -> str:
    """The key itself, if a store may hold it; KeyRefused otherwise."""
    if len(key) > MAX_KEY_CHARS:
        raise InvalidKey(f"a key has at most {MAX_KEY_CHARS} characters, not {len(key)}")
    for segment in key.split("/"):
        if not _SEGMENT.fullmatch(segment) or len(segment) > MAX_SEGMENT_CHARS:
            raise InvalidKey(
                f"{key!r} is no key: {segment!r} is no name of at most {MAX_SEGMENT_CHARS} of A-Za-z0-9._-"
            )
    return key


def validate_prefix(prefix: str) -> str:
    """The prefix itself, if it is a whole key, or one with "/" behind it, or nothing; KeyRefused otherwise."""
    if prefix:
        validate_key(prefix.removesuffix("/"))
    return prefix


def is_under_prefix(key: str, prefix: str) -> bool:
    """Whether a prefix means this key: as a whole, or as the folder that it lies in."""
    return key.startswith(prefix) if prefix == "" or prefix.endswith("/") else key == prefix
