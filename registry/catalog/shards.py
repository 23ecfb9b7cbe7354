"""Which shard a sample belongs to: a keyed hash of its digest, so that no sample moves when another goes."""

import hashlib
import hmac
from collections.abc import Iterable

from registry.datasets.dataset import LabelledPicture


def assign_shard(digest: str, key: bytes, shards: int) -> int:
    """The number of the shard, from 0, that holds the sample with this digest."""
    if shards < 1:
        raise ValueError(f"a source has at least one shard, not {shards}")
    if not key:
        raise ValueError("the key of a split is empty: without one, an uploader could aim samples at a shard")
    drawn = hmac.digest(key, bytes.fromhex(digest), hashlib.sha256)
    # 128 bits: the remainder's bias is far below anything that could be seen.
    return int.from_bytes(drawn[:16], "big") % shards


def split_into_shards(
    samples: Iterable[LabelledPicture], key: bytes, shards: int
) -> tuple[tuple[LabelledPicture, ...], ...]:
    """The samples of each shard, sorted by digest; a shard may be empty."""
    parts: list[list[LabelledPicture]] = [[] for _ in range(shards)]
    for sample in sorted(samples, key=lambda sample: sample.digest):
        parts[assign_shard(sample.digest, key, shards)].append(sample)
    return tuple(tuple(part) for part in parts)
