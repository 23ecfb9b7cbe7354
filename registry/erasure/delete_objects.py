"""Removing an erasure's objects, after counting what there is."""

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
    """Something was written below a prefix while it was emptied."""


def delete_objects(registry: Registry, erasure: Erasure) -> None:
    """Nothing lies under the erasure's prefixes any more, and the first attempt has noted what did."""
    require_own_store(registry.database, registry.objects)
    # A prompt's folder first, if there is one: what was learnt goes before what it was learnt from.
    for number, part in enumerate((*_count(registry, erasure), *erasure.prefixes)):
        if number == 1:
            failpoints.hit_failpoint("erasure: half the objects")
        registry.objects.remove(part)
    for prefix in erasure.prefixes:
        if any(True for _ in registry.objects.list_all(prefix)):
            raise ObjectsReappeared(f"{registry.objects.name} still fills below {prefix}: it is emptied again")


def _count(registry: Registry, erasure: Erasure) -> list[str]:
    """Notes, once, what lies there before any of it goes; returns the first folder of it, if there is one."""
    first: list[str] = []
    things = size_bytes = total = 0
    for prefix in erasure.prefixes:
        for found in registry.objects.list_all(prefix):
            things, size_bytes = things + 1, size_bytes + found.size_bytes
            # A sum of digests does not depend on the order of a listing, nor does it need all keys at once.
            total += int.from_bytes(hashlib.sha256(found.key.encode()).digest(), "big")
            if prefix.endswith("/"):
                folder = _part(found.key, prefix)
                first = [min(*first, folder)] if first else [folder]
    with registry.database.write_transaction() as session:
        step = lock_step(session, erasure.id, "objects")
        if not step.found:
            keys = f"{total % _MODULUS:064x}"
            step.found = {"store": registry.objects.name, "objects": things, "bytes": size_bytes, "keys": keys}
    return first


def _part(key: str, prefix: str) -> str:
    """The folder of a shard that the key lies in, or the whole prefix if it lies elsewhere."""
    place = parse_key(key)
    if place is None:
        return prefix
    shard = shard_prefix(place.source, place.shard)
    folder = f"{shard}{key.removeprefix(shard).partition('/')[0]}/"
    return folder if folder.startswith(prefix) else prefix
