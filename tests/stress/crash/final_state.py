"""The rows and objects after a crash run, compared with the journal and searched for what was forgotten."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from sqlalchemy import select

from registry.db.models.catalog import Sample, Shard, Source
from registry.db.models.erasures import Erasure
from registry.db.models.prompts import Prompt
from registry.db.models.registry import all_tables
from registry.erasure.verify import verify_receipt
from registry.registry import Registry
from registry.storage.keys import sample_key
from registry.storage.ownership import OWNERSHIP_KEY
from tests.registry.crash.search_bytes import list_bucket
from tests.servers.s3 import S3Server
from tests.stress.crash.journal import Journal, Upload
from tests.stress.crash.train_copies import Copy

REQUESTS = frozenset({"erasures"})  # a request names the picture that is to be forgotten by its digest


@dataclass(frozen=True)
class Rows:
    """The rows after a crash run."""

    sources: list[Source]
    shards: list[Shard]
    samples: list[Sample]
    prompts: list[Prompt]
    erasures: list[Erasure]

    @property
    def keys(self) -> set[str]:
        """Return the keys of all objects that the rows name, and of the store's mark."""
        samples = {sample_key(one.source_id, one.shard_id, one.digest) for one in self.samples}
        return samples | {one.key for one in self.prompts} | {OWNERSHIP_KEY}


def read_rows(registry: Registry) -> Rows:
    with registry.database.read_transaction() as session:
        tables = (Source, Shard, Sample, Prompt, Erasure)
        return Rows(*(list(session.scalars(select(table))) for table in tables))  # type: ignore[arg-type]  # in order


def misplaced_uploads(rows: Rows, journal: Journal) -> Iterator[str]:
    """Yield accepted uploads that are missing or incomplete, and forgotten ones that still exist."""
    forgotten = {one.source for one in journal.forgets if one.sample is None}
    there = {str(source.id): source.name for source in rows.sources}
    known = set()
    for source, uploads in _by_source(journal.uploads, {name: source for source, name in there.items()}).items():
        known.add(source)
        if source in forgotten:
            if source in there:
                yield f"source {source} was forgotten, but exists"
            continue
        gone = {one.sample for one in journal.forgets if one.source == source}
        sure = {digest for upload in uploads if upload.is_sure for digest in upload.archive.digests} - gone
        stored = {one.digest for one in rows.samples if str(one.source_id) == source}
        if missing := sure - stored:
            yield f"source {source} lacks {len(missing)} of {len(sure)} pictures that were accepted"
        for upload in uploads:
            part = upload.archive.digests & stored
            if not upload.is_sure and part not in (frozenset(), upload.archive.digests):
                yield f"source {source} has {len(part)} of the pictures of {upload.archive.name}, and not all"
        if strange := stored - {digest for upload in uploads for digest in upload.archive.digests - gone}:
            yield f"source {source} has {len(strange)} pictures that were forgotten or never sent"
    yield from (f"source {source} exists, but was never uploaded" for source in there.keys() - known)


def untrained_shards(rows: Rows, copies: Mapping[str, Copy], bodies: Mapping[str, bytes]) -> Iterator[str]:
    """Yield shards without a prompt of their generation and of exactly their samples."""
    prompts = {one.shard_id: one for one in rows.prompts}
    for shard in rows.shards:
        prompt = prompts.pop(shard.id, None)
        if prompt is None or prompt.generation != shard.generation:
            yield f"shard {shard.id} has no prompt of generation {shard.generation}"
            continue
        copy = copies[str(prompt.id)]
        if copy.samples != {one.digest for one in rows.samples if one.shard_id == shard.id}:
            yield f"the prompt of shard {shard.id} has learnt from other pictures"
        if bodies.get(prompt.key) != copy.data:
            yield f"the prompt of shard {shard.id} is another than the one that was trained"
    yield from (f"prompt {one.id} has no shard" for one in prompts.values())


def unproved_erasures(registry: Registry, rows: Rows, journal: Journal) -> Iterator[str]:
    """Yield accepted requests to forget without a valid receipt."""
    for forget in journal.forgets:
        key = (forget.source, forget.sample)
        mine = [str(one.id) for one in rows.erasures if (str(one.source_id), one.sample) == key]
        if mine != [forget.erasure]:
            yield f"{forget} has the erasures {mine}"
    if len(rows.erasures) != len(journal.forgets):
        yield f"{len(journal.forgets)} things were forgotten, by {len(rows.erasures)} erasures"
    for erasure in rows.erasures:
        if erasure.receipt is None or erasure.completed_at is None:
            yield f"erasure {erasure.id} is not complete"
        elif bad := [check for check in verify_receipt(registry, erasure.receipt).checks if not check.ok]:
            yield f"the receipt of erasure {erasure.id} does not hold: {bad}"


def _by_source(uploads: Sequence[Upload], ids: Mapping[str | None, str]) -> dict[str, list[Upload]]:
    """Group the uploads by source. An upload whose response was lost belongs to the source of that name, if any."""
    grouped: dict[str, list[Upload]] = {}
    for upload in uploads:
        if source := upload.source or ids.get(upload.archive.name):
            grouped.setdefault(source, []).append(upload)
    return grouped


def bodies_in(server: S3Server, bucket: str, prefix: str) -> Mapping[str, bytes]:
    """Return everything in the bucket below the prefix by key; the key of a version or unfinished upload says so."""
    with closing(server.client()) as client:
        return {
            key.removeprefix(f"{prefix}/"): b""
            if " (" in key
            else client.get_object(Bucket=bucket, Key=key)["Body"].read()
            for key in list_bucket(server, server.settings(bucket, prefix))
        }


def rows_with(registry: Registry, texts: Collection[str], digests: Collection[str]) -> Iterator[str]:
    """Yield the rows of any table that hold one of the texts or, except in requests to forget, one of the digests."""
    for table in all_tables().sorted_tables:
        needles = [*texts, *(() if table.name in REQUESTS else digests)]
        with registry.database.read_transaction() as session:
            for row in session.execute(select(table)):
                text = repr(tuple(row))
                yield from (f"{table.name}: {needle}" for needle in needles if needle in text)
