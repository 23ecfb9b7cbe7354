"""Verifies a receipt: its signature, and that everything it says still holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db.models.catalog import Sample
from registry.db.models.log import LogEntry, SigningKey
from registry.db.models.write_claims import WriteClaim
from registry.erasure.receipts import Receipt, canonical_json, parse_receipt, receipt_digest
from registry.erasure.target import count_rows
from registry.errors import Invalid
from registry.log import signing
from registry.registry import Registry
from registry.storage.keys import InvalidKey
from registry.storage.ownership import require_own_store
from registry.storage.store import ObjectStore

MAX_COUNTED = 1000  # remaining objects are counted up to here


@dataclass(frozen=True)
class ReceiptCheck:
    """The result of one check."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class ReceiptVerification:
    """All checks of a receipt; after a wrong signature nothing else is checked."""

    checks: tuple[ReceiptCheck, ...]

    @property
    def holds(self) -> bool:
        """Whether the receipt is genuine and everything it says still holds."""
        return all(check.ok for check in self.checks)


def verify_receipt(registry: Registry, receipt: dict[str, Any], *, public: str | None = None) -> ReceiptVerification:
    """Check the signature, by the given key or a known one, and then the database, the store and the log.

    Raises Invalid if the document is not a receipt.
    """
    parsed = parse_receipt(receipt)
    with registry.database.read_transaction() as session:
        genuine = _check_signature(session, receipt, parsed, public)
        if not genuine.ok:
            return ReceiptVerification((genuine,))
        in_rows = [_check_rows(session, parsed), _check_write_claims(session, parsed), *_check_sample(session, parsed)]
        in_log = [_check_log(session, receipt, parsed)]
    # Listing a store takes long: no transaction stays open for it.
    require_own_store(registry.database, registry.objects)
    return ReceiptVerification((genuine, _check_objects(registry.objects, parsed), *in_rows, *in_log))


def _check_signature(session: Session, document: dict[str, Any], receipt: Receipt, public: str | None) -> ReceiptCheck:
    name = "signature"
    if public is None:
        known = select(SigningKey.public).where(SigningKey.fingerprint == receipt.key)
        public = session.scalars(known).one_or_none()
        if public is None:
            return ReceiptCheck(name, False, f"signed by the key {receipt.key[:16]}, which is not known here")
    elif signing.key_fingerprint(public) != receipt.key:
        return ReceiptCheck(name, False, f"not signed by the key given, but by {receipt.key[:16]}")
    if not signing.is_signature_valid(canonical_json(document), receipt.signature, public):
        return ReceiptCheck(name, False, "the receipt was changed after it was signed, or was never signed")
    return ReceiptCheck(name, True, f"signed by the key {receipt.key[:16]}")


def _check_objects(objects: ObjectStore, receipt: Receipt) -> ReceiptCheck:
    name = "objects"
    try:
        left = list(islice((found for prefix in receipt.prefixes for found in objects.list_all(prefix)), MAX_COUNTED))
    except InvalidKey as error:
        raise Invalid("not a receipt: one of its prefixes is not a valid key") from error
    if left:
        count = f"{MAX_COUNTED} or more" if len(left) == MAX_COUNTED else str(len(left))
        return ReceiptCheck(name, False, f"{count} left in {objects.name}, {left[0].key} ({left[0].kind}) first")
    elsewhere = receipt.stores.get("objects", objects.name)
    moved = "" if elsewhere == objects.name else f"; at that time the store was {elsewhere}"
    return ReceiptCheck(name, True, f"nothing is left under its prefixes in {objects.name}{moved}")


def _check_rows(session: Session, receipt: Receipt) -> ReceiptCheck:
    left = count_rows(session, receipt.target)
    if left:
        return ReceiptCheck(
            "rows", False, "left in " + ", ".join(f"{table} ({count})" for table, count in left.items())
        )
    return ReceiptCheck("rows", True, "no table has rows of it")


def _check_write_claims(session: Session, receipt: Receipt) -> ReceiptCheck:
    claims = select(WriteClaim.process).where(
        WriteClaim.source_id == receipt.source, WriteClaim.started_at < receipt.requested_at
    )
    if receipt.shard is not None:
        claims = claims.where(WriteClaim.shard_id == receipt.shard)
    processes = session.scalars(claims).all()
    if processes:
        return ReceiptCheck("write_claims", False, f"{processes[0]} may have bytes of it")
    return ReceiptCheck("write_claims", True, "no process has bytes of it")


def _check_sample(session: Session, receipt: Receipt) -> Iterator[ReceiptCheck]:
    if receipt.sample is None:
        return
    sample = session.get(Sample, (receipt.source, receipt.sample))
    if sample is None:
        yield ReceiptCheck("sample", True, "the picture is not a sample of its source")
    elif sample.shard_id != receipt.shard and sample.added_at >= receipt.requested_at:
        yield ReceiptCheck(
            "sample", True, f"the picture was uploaded again, and admitted, at {sample.added_at.isoformat()}"
        )
    else:
        yield ReceiptCheck("sample", False, "the picture is still a sample of its source")


def _check_log(session: Session, document: dict[str, Any], receipt: Receipt) -> ReceiptCheck:
    name = "log"
    requested, head, completed = (
        session.get(LogEntry, number) for number in (receipt.log.entry, receipt.log.head, receipt.log.head + 1)
    )
    if requested is None or head is None or completed is None:
        return ReceiptCheck(name, False, "entries that the receipt names are not in the log")
    if (requested.hash, head.hash) != (receipt.log.entry_hash, receipt.log.head_hash):
        return ReceiptCheck(name, False, "entries that the receipt names were changed in the log")
    subject = completed.subject
    if completed.action != "erasure.completed" or subject.get("erasure") != str(receipt.erasure):
        return ReceiptCheck(name, False, f"entry {completed.number} of the log does not complete this erasure")
    if subject.get("receipt") != receipt_digest(document):
        return ReceiptCheck(name, False, f"entry {completed.number} of the log names another receipt")
    return ReceiptCheck(name, True, f"entries {requested.number} and {completed.number} of the log name it")
