"""The names of objects: what a key may look like, and where each thing that the registry keeps lies."""

import re
from dataclasses import dataclass
from uuid import UUID

from registry.ids import made_at, new_id

MAX_KEY_CHARS = 512
# A folder's file names have at most 255 bytes, and an unfinished file's name carries a key's last segment and more.
MAX_SEGMENT_CHARS = 200

_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SHARD = rf"sources/(?P<source>{_ID})/shards/(?P<shard>{_ID})"
_SAMPLE_KEY = re.compile(rf"{_SHARD}/samples/(?P<digest>{_DIGEST.pattern})")
_PROMPT_KEY = re.compile(rf"{_SHARD}/prompts/(?P<generation>0|[1-9][0-9]*)/(?P<holding>{_ID})\.safetensors")
_PROBE_KEY = re.compile(rf"check-(?P<id>{_ID})")


class KeyRefused(ValueError):
    """A key or prefix that no store may be asked for: the caller is at fault, not the user."""


@dataclass(frozen=True)
class SamplePlace:
    """A key speaks of one picture of a shard."""

    source: UUID
    shard: UUID
    digest: str


@dataclass(frozen=True)
class PromptPlace:
    """A key speaks of a prompt, of one generation of a shard, made under one holding of its lease."""

    source: UUID
    shard: UUID
    generation: int
    holding: UUID


Place = SamplePlace | PromptPlace


def source_prefix(source: UUID) -> str:
    """Below it lies everything of a source."""
    return f"sources/{source}/"


def shard_prefix(source: UUID, shard: UUID) -> str:
    """Below it lies everything of a shard."""
    return f"{source_prefix(source)}shards/{shard}/"


def sample_key(source: UUID, shard: UUID, digest: str) -> str:
    """Where a picture's bytes lie; the digest is the SHA-256 of them, in lower hexadecimal."""
    if not _DIGEST.fullmatch(digest):
        raise KeyRefused(f"{digest!r} is no SHA-256 in lower hexadecimal")
    return f"{shard_prefix(source, shard)}samples/{digest}"


def prompts_prefix(source: UUID, shard: UUID, generation: int) -> str:
    """Below it lie the prompts of one generation of a shard."""
    if generation < 0:
        raise KeyRefused(f"{generation} is no generation")
    return f"{shard_prefix(source, shard)}prompts/{generation}/"


def prompt_key(source: UUID, shard: UUID, generation: int, holding: UUID) -> str:
    """Where a prompt lies: two workers that both believe they hold the shard never write to one key."""
    return f"{prompts_prefix(source, shard, generation)}{holding}.safetensors"


def parse(key: str) -> Place | None:
    """What the key speaks of, if one of the functions above made it."""
    if found := _SAMPLE_KEY.fullmatch(key):
        return SamplePlace(UUID(found["source"]), UUID(found["shard"]), found["digest"])
    if found := _PROMPT_KEY.fullmatch(key):
        return PromptPlace(
            UUID(found["source"]), UUID(found["shard"]), int(found["generation"]), UUID(found["holding"])
        )
    return None


def probe_key() -> str:
    """Where a store is tried out for a moment; the key tells since when, should whoever tries it die."""
    return f"check-{new_id()}"


def probed_at(key: str) -> float | None:
    """The Unix time at which the key was made to try a store out; None if it was not."""
    found = _PROBE_KEY.fullmatch(key)
    return None if found is None else made_at(UUID(found["id"]))


def checked_key(key: str) -> str:
    """The key itself, if a store may hold it; KeyRefused otherwise."""
    if len(key) > MAX_KEY_CHARS:
        raise KeyRefused(f"a key has at most {MAX_KEY_CHARS} characters, not {len(key)}")
    for segment in key.split("/"):
        if not _SEGMENT.fullmatch(segment) or len(segment) > MAX_SEGMENT_CHARS:
            raise KeyRefused(
                f"{key!r} is no key: {segment!r} is no name of at most {MAX_SEGMENT_CHARS} of A-Za-z0-9._-"
            )
    return key


def checked_prefix(prefix: str) -> str:
    """The prefix itself, if it is a whole key, or one with "/" behind it, or nothing; KeyRefused otherwise."""
    if prefix:
        checked_key(prefix.removesuffix("/"))
    return prefix


def lies_under(key: str, prefix: str) -> bool:
    """Whether a prefix means this key: as a whole, or as the folder that it lies in."""
    return key.startswith(prefix) if prefix == "" or prefix.endswith("/") else key == prefix
