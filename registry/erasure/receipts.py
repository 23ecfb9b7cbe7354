"""Receipts: what was removed, when, and from where, signed in the transaction that completes the erasure."""

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
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


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepReceipt(_Part):
    """One step: when a look found it done, after how many attempts, and what it removed."""

    name: str
    done_at: datetime
    attempts: int
    found: dict[str, int | str]


class AuditReceipt(_Part):
    """Where the log speaks of the erasure; the line after the head carries this receipt's digest."""

    line: int
    line_hash: Sha256 | None  # None: somebody had taken the line out
    head: int
    head_hash: Sha256


class Receipt(_Part):
    """The document as it is written and read."""

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
    audit: AuditReceipt
    not_covered: str
    key: Sha256  # of the public key that signed
    signature: str

    @property
    def target(self) -> ErasureTarget:
        """What is to be looked for."""
        return ErasureTarget(self.source, self.shard, self.sample, tuple(self.prefixes))


def complete_erasure(registry: Registry, erasure_id: UUID) -> None:
    """Signs the receipt of an erasure whose steps are all done; one that has its receipt keeps it."""
    failpoints.hit_failpoint("erasure: before the receipt")
    with registry.database.write_transaction() as session:
        erasure = session.scalars(select(Erasure).where(Erasure.id == erasure_id).with_for_update()).one()
        if erasure.completed_at is not None:
            return
        undone = select(ErasureStep.name).where(ErasureStep.erasure_id == erasure_id, ErasureStep.done_at.is_(None))
        if names := session.scalars(undone).all():
            raise Conflict(f"there is no receipt before all is done: {', '.join(names)} must be tried again")
        # From here on the log stands still, so that its next line is the one that carries this receipt.
        head = session.scalars(select(LogHead).with_for_update()).one()
        signing.register_key(session, registry.signer)
        erasure.completed_at = session.execute(select(now())).scalar_one()
        document = _document(session, registry, erasure, head)
        session.execute(update(ErasureStep).where(ErasureStep.erasure_id == erasure_id).values(error=None))
        erasure.receipt = document | {"signature": registry.signer.sign(canonical_json(document))}
        chain.append_entry(
            session, None, "erasure.completed", erasure=erasure_id, receipt=receipt_digest(erasure.receipt)
        )
    failpoints.hit_failpoint("erasure: complete")


def canonical_json(document: dict[str, Any]) -> bytes:
    """The bytes that are signed: the document as JSON, without its signature, in the one way to write it."""
    unsigned = {name: value for name, value in document.items() if name != "signature"}
    return json.dumps(unsigned, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def receipt_digest(document: dict[str, Any]) -> str:
    """The digest by which the log names a receipt."""
    return hashlib.sha256(canonical_json(document)).hexdigest()


def parse_receipt(document: object) -> Receipt:
    """The receipt, if it has the shape of one; Invalid says what is wrong with it."""
    if not isinstance(document, dict):
        raise Invalid("this is no receipt: a receipt is a JSON object")
    try:
        receipt = Receipt.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise Invalid(f"this is no receipt: {where}: {first['msg']}") from error
    if not all(prefix.startswith(source_prefix(receipt.source)) for prefix in receipt.prefixes):
        raise Invalid("this is no receipt: its prefixes are not those of its source")
    return receipt


def _document(session: Session, registry: Registry, erasure: Erasure, head: LogHead) -> dict[str, Any]:
    began = session.get(LogEntry, erasure.epoch)
    steps = select(ErasureStep).where(ErasureStep.erasure_id == erasure.id).order_by(ErasureStep.number)
    return {
        "version": VERSION,
        "erasure": str(erasure.id),
        "scope": erasure.scope,
        "task": str(erasure.task_id),
        "source": str(erasure.source_id),
        "shard": _text(erasure.shard_id),
        "sample": erasure.sample,
        "requested_at": _text(erasure.requested_at),
        "requested_by": _text(erasure.requested_by),
        "completed_at": _text(erasure.completed_at),
        "steps": [
            {"name": step.name, "done_at": _text(step.done_at), "attempts": step.attempts, "found": step.found}
            for step in session.scalars(steps)
        ],
        "prefixes": list(erasure.prefixes),
        "stores": {"rows": describe_database(registry.database), "objects": registry.objects.name},
        "audit": {
            "line": erasure.epoch,
            "line_hash": None if began is None else began.hash,
            "head": head.number,
            "head_hash": head.hash,
        },
        "not_covered": NOT_COVERED,
        "key": registry.signer.fingerprint,
    }


def describe_database(database: Database) -> str:
    """What to call the database in a receipt: neither a user nor a path of the machine."""
    url = database.engine.url
    if database.is_sqlite:
        return f"sqlite {Path(url.database or '').name}"
    return f"postgresql {url.host or 'local'}/{url.database}"


def _text(value: UUID | datetime | None) -> str | None:
    if isinstance(value, datetime):
        return value.isoformat()
    return None if value is None else str(value)
