"""Search the bucket, the tables and all folders for bytes after a crash run, without the code under test."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from sqlalchemy import select

from registry.db.models.registry import all_tables
from registry.registry import Registry
from tests.registry.crash.search_bytes import find_bytes, list_bucket
from tests.servers.s3 import S3Server

REQUESTS = frozenset({"erasures"})  # a request names the picture that is to be forgotten by its digest


def bodies_in(server: S3Server, bucket: str, prefix: str) -> Mapping[str, bytes]:
    """Return everything in the bucket below the prefix by key; the key of a version or unfinished upload says so."""
    client = server.client()
    below = f"{prefix}/"
    try:
        return {
            key.removeprefix(below): client.get_object(Bucket=bucket, Key=key)["Body"].read()
            if " (" not in key
            else b""
            for key in list_bucket(server, server.settings(bucket, prefix))
        }
    finally:
        client.close()


def rows_with(registry: Registry, texts: Collection[str], digests: Collection[str]) -> Iterator[str]:
    """Yield the rows of any table that hold one of the texts or, except in requests to forget, one of the digests."""
    for table in all_tables().sorted_tables:
        needles = [*texts, *(() if table.name in REQUESTS else digests)]
        with registry.database.read_transaction() as session:
            for row in session.execute(select(table)):
                text = repr(tuple(row))
                yield from (f"{table.name}: {needle}" for needle in needles if needle in text)


def folders_with(roots: Collection[Path], bodies: Collection[bytes], texts: Collection[str]) -> list[tuple[str, bytes]]:
    """Return the files below the roots, logs included, whose bytes or names hold one of these."""
    return find_bytes([*bodies, *(text.encode() for text in texts)], *roots)


def scratch_folders_in(parts: Path) -> list[str]:
    """Return what is left in the scratch folders of all parts; none of them may be running."""
    return [str(file) for file in parts.glob("*/scratch/*") if file.name != "scratch-id"]


def is_body_of(key: str, body: bytes) -> bool:
    """Whether the digest of a sample's object is the one in its key."""
    return hashlib.sha256(body).hexdigest() == key.rpartition("/")[2]
