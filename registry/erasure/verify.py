"""Checking a receipt: that it is genuine, and, by looking again, that what it says still holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db.models.catalog import Sample
from registry.db.models.erasures import SigningKey
from registry.db.models.log import LogEntry
from registry.db.models.write_claims import WriteClaim
from registry.erasure.receipts import Receipt, canonical_json, parse_receipt, receipt_digest
from registry.erasure.target import count_rows
from registry.errors import Invalid
from registry.log import signing
from registry.registry import Registry
from registry.storage.keys import InvalidKey
from registry.storage.ownership import require_own_store
from registry.storage.store import ObjectStore

MANY = 1000  # leftovers are counted up to here


@dataclass(frozen=True)
class ReceiptCheck:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class ReceiptVerification:
    """All that was looked at. A receipt that is not genuine says nothing, so then nothing else was."""

    checks: tuple[ReceiptCheck, ...]

    @property
    def holds(self) -> bool:
        """Whether the receipt is genuine and everything it says is still so."""
        return all(check.ok for check in self.checks)


def verify_receipt(registry: Registry, receipt: dict[str, Any], *, public: str | None = None) -> ReceiptVerification:
    """Checks the signature, by the key given or one the registry knows, and looks in the live stores and the log.

    Raises Invalid for what has not even the shape of a receipt.
    """
    read = parse_receipt(receipt)
    with registry.database.read_transaction() as session:
        genuine = _check_signature(session, receipt, read, public)
        if not genuine.ok:
            return ReceiptVerification((genuine,))
        in_rows = [_check_rows(session, read), _check_holdings(session, read), *_check_sample(session, read)]
        in_log = [_check_log(session, receipt, read)]
    # Listing a store takes a while: no transaction stays open for it.
    require_own_store(registry.database, registry.objects)
    return ReceiptVerification((genuine, _check_objects(registry.objects, read), *in_rows, *in_log))


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
        return ReceiptCheck(name, False, "the receipt was changed after it was signed, or never signed")
    return ReceiptCheck(name, True, f"signed by the key {receipt.key[:16]}")


def _check_objects(objects: ObjectStore, receipt: Receipt) -> ReceiptCheck:
    name = "objects"
    try:
        left = list(islice((found for prefix in receipt.prefixes for found in objects.list_all(prefix)), MANY))
    except InvalidKey as error:
        raise Invalid("this is no receipt: one of its prefixes cannot be looked under") from error
    if left:
        count = f"{MANY} or more" if len(left) == MANY else str(len(left))
        return ReceiptCheck(name, False, f"{count} left in {objects.name}, {left[0].key} ({left[0].kind}) first")
    elsewhere = receipt.stores.get("objects", objects.name)
    moved = "" if elsewhere == objects.name else f"; at that time the store was {elsewhere}"
    return ReceiptCheck(name, True, f"nothing lies under its prefixes in {objects.name}{moved}")


def _check_rows(session: Session, receipt: Receipt) -> ReceiptCheck:
    left = count_rows(session, receipt.target)
    if left:
        return ReceiptCheck(
            "rows", False, "left in " + ", ".join(f"{table} ({count})" for table, count in left.items())
        )
    return ReceiptCheck("rows", True, "no table speaks of it")


def _check_holdings(session: Session, receipt: Receipt) -> ReceiptCheck:
    held = select(WriteClaim.process).where(
        WriteClaim.source_id == receipt.source, WriteClaim.started_at < receipt.requested_at
    )
    if receipt.shard is not None:
        held = held.where(WriteClaim.shard_id == receipt.shard)
    holders = session.scalars(held).all()
    if holders:
        return ReceiptCheck("holdings", False, f"bytes of it may be held by {holders[0]}")
    return ReceiptCheck("holdings", True, "nobody holds bytes of it")


def _check_sample(session: Session, receipt: Receipt) -> Iterator[ReceiptCheck]:
    if receipt.sample is None:
        return
    sample = session.get(Sample, (receipt.source, receipt.sample))
    if sample is None:
        yield ReceiptCheck("sample", True, "the picture is no sample of its source")
    elif sample.shard_id != receipt.shard and sample.added_at >= receipt.requested_at:
        yield ReceiptCheck(
            "sample", True, f"the picture was uploaded again, and admitted, at {sample.added_at.isoformat()}"
        )
    else:
        yield ReceiptCheck("sample", False, "the picture is still a sample of its source")


def _check_log(session: Session, document: dict[str, Any], receipt: Receipt) -> ReceiptCheck:
    name = "log"
    began, head, completed = (
        session.get(LogEntry, number) for number in (receipt.audit.line, receipt.audit.head, receipt.audit.head + 1)
    )
    if began is None or head is None or completed is None:
        return ReceiptCheck(name, False, "lines that the receipt names are not in the log")
    if (began.hash, head.hash) != (receipt.audit.line_hash, receipt.audit.head_hash):
        return ReceiptCheck(name, False, "lines that the receipt names were changed in the log")
    told = completed.subject
    if completed.action != "erasure.completed" or told.get("erasure") != str(receipt.erasure):
        return ReceiptCheck(name, False, f"line {completed.number} of the log does not complete this erasure")
    if told.get("receipt") != receipt_digest(document):
        return ReceiptCheck(name, False, f"line {completed.number} of the log names another receipt")
    return ReceiptCheck(name, True, f"lines {began.number} and {completed.number} of the log name it")
