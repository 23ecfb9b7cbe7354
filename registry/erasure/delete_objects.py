"""Deletes an erasure's objects, after counting them."""

import hashlib

from registry import failpoints
from registry.db.models.erasures import Erasure
from registry.erasure.status import lock_step
from registry.errors import Conflict
from registry.registry import Registry
from registry.storage.keys import parse_key, shard_prefix
from registry.storage.ownership import require_own_store

_MODULUS = 1 << 256


class ObjectsReappeared(Conflict):
    """Something was written below a prefix while its objects were deleted."""


def delete_objects(registry: Registry, erasure: Erasure) -> None:
    """Delete everything under the erasure's prefixes; the first attempt records what was there."""
    require_own_store(registry.database, registry.objects)
    # A folder of prompts first, if there is one: prompts go before the pictures that they were trained on.
    for number, part in enumerate((*_record_counts(registry, erasure), *erasure.prefixes)):
        if number == 1:
            failpoints.hit_failpoint("erasure: half the objects")
        registry.objects.remove(part)
    for prefix in erasure.prefixes:
        if any(True for _ in registry.objects.list_all(prefix)):
            raise ObjectsReappeared(f"objects are still written to {registry.objects.name} below {prefix}")


def _record_counts(registry: Registry, erasure: Erasure) -> list[str]:
    """Record, once, what is there before any of it is deleted; return its first folder, if there is one."""
    first: list[str] = []
    objects = size_bytes = digest_sum = 0
    for prefix in erasure.prefixes:
        for found in registry.objects.list_all(prefix):
            objects, size_bytes = objects + 1, size_bytes + found.size_bytes
            # A sum of digests depends neither on the order of a listing nor on having all keys at once.
            digest_sum += int.from_bytes(hashlib.sha256(found.key.encode()).digest(), "big")
            if prefix.endswith("/"):
                folder = _shard_folder(found.key, prefix)
                first = [min(*first, folder)] if first else [folder]
    with registry.database.write_transaction() as session:
        step = lock_step(session, erasure.id, "objects")
        if not step.found:
            keys = f"{digest_sum % _MODULUS:064x}"
            step.found = {"store": registry.objects.name, "objects": objects, "bytes": size_bytes, "keys": keys}
    return first


def _shard_folder(key: str, prefix: str) -> str:
    """Return the folder of the shard that has the key, or the whole prefix if the key is elsewhere."""
    place = parse_key(key)
    if place is None:
        return prefix
    shard = shard_prefix(place.source, place.shard)
    folder = f"{shard}{key.removeprefix(shard).partition('/')[0]}/"
    return folder if folder.startswith(prefix) else prefix
