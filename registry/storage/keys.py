"""Keys of objects: their form, and the key of each kind of object."""

import re
from dataclasses import dataclass
from uuid import UUID

from registry.ids import id_timestamp, new_id

MAX_KEY_CHARS = 512
# File names have at most 255 bytes, and the name of a temporary file is longer than the key's last segment.
MAX_SEGMENT_CHARS = 200

_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SHARD = rf"sources/(?P<source>{_ID})/shards/(?P<shard>{_ID})"
_SAMPLE_KEY = re.compile(rf"{_SHARD}/samples/(?P<digest>{_DIGEST.pattern})")
_PROMPT_KEY = re.compile(rf"{_SHARD}/prompts/(?P<generation>0|[1-9][0-9]*)/(?P<claim>{_ID})\.safetensors")
_PROBE_KEY = re.compile(rf"check-(?P<id>{_ID})")


class InvalidKey(ValueError):
    """A key or prefix is malformed: an error in the program, not of a user."""


@dataclass(frozen=True)
class SampleKey:
    """The parts of a picture's key."""

    source: UUID
    shard: UUID
    digest: str


@dataclass(frozen=True)
class PromptKey:
    """The parts of a prompt's key."""

    source: UUID
    shard: UUID
    generation: int
    claim: UUID


ObjectKey = SampleKey | PromptKey


def source_prefix(source: UUID) -> str:
    """Return the prefix of all objects of a source."""
    return f"sources/{source}/"


def shard_prefix(source: UUID, shard: UUID) -> str:
    """Return the prefix of all objects of a shard."""
    return f"{source_prefix(source)}shards/{shard}/"


def sample_key(source: UUID, shard: UUID, digest: str) -> str:
    """Return the key of a picture; the digest is its SHA-256 in lower hexadecimal."""
    if not _DIGEST.fullmatch(digest):
        raise InvalidKey(f"{digest!r} is not a SHA-256 in lower hexadecimal")
    return f"{shard_prefix(source, shard)}samples/{digest}"


def prompts_prefix(source: UUID, shard: UUID, generation: int) -> str:
    """Return the prefix of the prompts of one generation of a shard."""
    if generation < 0:
        raise InvalidKey(f"{generation} is not a generation")
    return f"{shard_prefix(source, shard)}prompts/{generation}/"


def prompt_key(source: UUID, shard: UUID, generation: int, claim: UUID) -> str:
    """Return the key of a prompt; it contains the write claim, so that two workers never write to the same key."""
    return f"{prompts_prefix(source, shard, generation)}{claim}.safetensors"


def parse_key(key: str) -> ObjectKey | None:
    """Return the parts of a key that `sample_key` or `prompt_key` made; None for any other key."""
    if found := _SAMPLE_KEY.fullmatch(key):
        return SampleKey(UUID(found["source"]), UUID(found["shard"]), found["digest"])
    if found := _PROMPT_KEY.fullmatch(key):
        return PromptKey(UUID(found["source"]), UUID(found["shard"]), int(found["generation"]), UUID(found["claim"]))
    return None


def probe_key() -> str:
    """Return the key of a short-lived test object; it contains the time, in case its writer dies."""
    return f"check-{new_id()}"


def probe_timestamp(key: str) -> float | None:
    """Return the Unix time at which `probe_key` made the key; None for any other key."""
    found = _PROBE_KEY.fullmatch(key)
    return None if found is None else id_timestamp(UUID(found["id"]))


def validate_key(key: str) -> str:
    """Return the key; raise InvalidKey if it is malformed."""
    if len(key) > MAX_KEY_CHARS:
        raise InvalidKey(f"a key has at most {MAX_KEY_CHARS} characters, not {len(key)}")
    for segment in key.split("/"):
        if not _SEGMENT.fullmatch(segment) or len(segment) > MAX_SEGMENT_CHARS:
            raise InvalidKey(
                f"{key!r} is not a key: {segment!r} is not a name of at most {MAX_SEGMENT_CHARS} A-Za-z0-9._-"
            )
    return key


def validate_prefix(prefix: str) -> str:
    """Return the prefix: a whole key, a key with "/" at its end, or ""; raise InvalidKey for anything else."""
    if prefix:
        validate_key(prefix.removesuffix("/"))
    return prefix


def is_under_prefix(key: str, prefix: str) -> bool:
    """Return whether the prefix is this key, or a folder that contains it."""
    return key.startswith(prefix) if prefix == "" or prefix.endswith("/") else key == prefix
