"""Assign samples to shards by a keyed hash of their digests, so that no sample moves when another is removed."""

import hashlib
import hmac
from collections.abc import Iterable

from registry.datasets.dataset import LabelledPicture


def assign_shard(digest: str, key: bytes, shards: int) -> int:
    """Return the number of the shard, from 0, of the sample with this digest."""
    if shards < 1:
        raise ValueError(f"a source has at least one shard, not {shards}")
    if not key:
        raise ValueError("the key is empty: without a secret key, an uploader could choose the shard of a sample")
    code = hmac.digest(key, bytes.fromhex(digest), hashlib.sha256)
    # 128 bits make the bias of the remainder negligible.
    return int.from_bytes(code[:16], "big") % shards


def split_into_shards(
    samples: Iterable[LabelledPicture], key: bytes, shards: int
) -> tuple[tuple[LabelledPicture, ...], ...]:
    """Return the samples of each shard, sorted by digest; a shard may be empty."""
    parts: list[list[LabelledPicture]] = [[] for _ in range(shards)]
    for sample in sorted(samples, key=lambda sample: sample.digest):
        parts[assign_shard(sample.digest, key, shards)].append(sample)
    return tuple(tuple(part) for part in parts)
