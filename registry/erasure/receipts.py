"""Receipts: what was removed, when and from where, signed in the transaction that completes the erasure."""

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from alacarte.api.literals import ErasureScope
from registry import failpoints
from registry.db.clock import now
from registry.db.database import Database
from registry.db.models.erasures import Erasure, ErasureStep
from registry.db.models.log import LogEntry, LogHead
from registry.erasure.target import ErasureTarget
from registry.errors import Conflict, Invalid
from registry.log import chain, signing
from registry.registry import Registry
from registry.storage.keys import source_prefix

VERSION = 1
NOT_COVERED = (
    "Backups, replicas and archived logs that were made outside the stores named here, copies that clients took, and "
    "disk blocks that a database, file system or store has freed and not yet written over, are not covered."
)
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _ReceiptModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepReceipt(_ReceiptModel):
    """One step: when it was verified, after how many attempts, and what it removed."""

    name: str
    done_at: datetime
    attempts: int
    found: dict[str, int | str]


class LogReceipt(_ReceiptModel):
    """The log entry of the request, and the head of the log; the entry after it has this receipt's digest."""

    # Receipts of earlier versions say `line` and `line_hash`.
    entry: int = Field(validation_alias=AliasChoices("entry", "line"))
    entry_hash: Sha256 | None = Field(validation_alias=AliasChoices("entry_hash", "line_hash"))  # None: it was removed
    head: int
    head_hash: Sha256


class Receipt(_ReceiptModel):
    """The signed document."""

    version: Literal[1]
    erasure: UUID
    scope: ErasureScope
    task: UUID
    source: UUID
    shard: UUID | None
    sample: Sha256 | None
    requested_at: datetime
    requested_by: UUID | None
    completed_at: datetime
    steps: list[StepReceipt]
    prefixes: Annotated[list[str], Field(min_length=1)]
    stores: dict[str, str]
    log: LogReceipt = Field(validation_alias=AliasChoices("log", "audit"))  # `audit` in earlier versions
    not_covered: str
    key: Sha256  # of the public key that signed
    signature: str

    @property
    def target(self) -> ErasureTarget:
        """What the erasure removed."""
        return ErasureTarget(self.source, self.shard, self.sample, tuple(self.prefixes))


def complete_erasure(registry: Registry, erasure_id: UUID) -> None:
    """Sign the receipt of an erasure whose steps are all done; an existing receipt is kept."""
    failpoints.hit_failpoint("erasure: before the receipt")
    with registry.database.write_transaction() as session:
        erasure = session.scalars(select(Erasure).where(Erasure.id == erasure_id).with_for_update()).one()
        if erasure.completed_at is not None:
            return
        undone = select(ErasureStep.name).where(ErasureStep.erasure_id == erasure_id, ErasureStep.done_at.is_(None))
        if names := session.scalars(undone).all():
            raise Conflict(f"the receipt is signed once all steps are done; not done: {', '.join(names)}")
        # The lock keeps the log as it is, so that its next entry is the one with this receipt.
        head = session.scalars(select(LogHead).with_for_update()).one()
        signing.register_key(session, registry.signer)
        erasure.completed_at = session.execute(select(now())).scalar_one()
        document = _build_document(session, registry, erasure, head)
        session.execute(update(ErasureStep).where(ErasureStep.erasure_id == erasure_id).values(error=None))
        erasure.receipt = document | {"signature": registry.signer.sign(canonical_json(document))}
        chain.append_entry(
            session, None, "erasure.completed", erasure=erasure_id, receipt=receipt_digest(erasure.receipt)
        )
    failpoints.hit_failpoint("erasure: complete")


def canonical_json(document: dict[str, Any]) -> bytes:
    """Return the bytes that are signed: the document without its signature as canonical JSON."""
    unsigned = {name: value for name, value in document.items() if name != "signature"}
    return json.dumps(unsigned, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def receipt_digest(document: dict[str, Any]) -> str:
    """Return the digest by which the log names a receipt."""
    return hashlib.sha256(canonical_json(document)).hexdigest()


def parse_receipt(document: object) -> Receipt:
    """Parse a receipt; Invalid says what is wrong with it."""
    if not isinstance(document, dict):
        raise Invalid("not a receipt: a receipt is a JSON object")
    try:
        receipt = Receipt.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise Invalid(f"not a receipt: {where}: {first['msg']}") from error
    if not all(prefix.startswith(source_prefix(receipt.source)) for prefix in receipt.prefixes):
        raise Invalid("not a receipt: its prefixes are not those of its source")
    return receipt


def _build_document(session: Session, registry: Registry, erasure: Erasure, head: LogHead) -> dict[str, Any]:
    request_entry = session.get(LogEntry, erasure.epoch)
    steps = select(ErasureStep).where(ErasureStep.erasure_id == erasure.id).order_by(ErasureStep.number)
    return {
        "version": VERSION,
        "erasure": str(erasure.id),
        "scope": erasure.scope,
        "task": str(erasure.task_id),
        "source": str(erasure.source_id),
        "shard": _to_text(erasure.shard_id),
        "sample": erasure.sample,
        "requested_at": _to_text(erasure.requested_at),
        "requested_by": _to_text(erasure.requested_by),
        "completed_at": _to_text(erasure.completed_at),
        "steps": [
            {"name": step.name, "done_at": _to_text(step.done_at), "attempts": step.attempts, "found": step.found}
            for step in session.scalars(steps)
        ],
        "prefixes": list(erasure.prefixes),
        "stores": {"rows": describe_database(registry.database), "objects": registry.objects.name},
        "log": {
            "entry": erasure.epoch,
            "entry_hash": None if request_entry is None else request_entry.hash,
            "head": head.number,
            "head_hash": head.hash,
        },
        "not_covered": NOT_COVERED,
        "key": registry.signer.fingerprint,
    }


def describe_database(database: Database) -> str:
    """Return a name of the database for receipts, without user names and paths."""
    url = database.engine.url
    if database.is_sqlite:
        return f"sqlite {Path(url.database or '').name}"
    return f"postgresql {url.host or 'local'}/{url.database}"


def _to_text(value: UUID | datetime | None) -> str | None:
    if isinstance(value, datetime):
        return value.isoformat()
    return None if value is None else str(value)
