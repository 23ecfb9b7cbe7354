"""A receipt cannot be edited, and its verification checks rows, objects, claims and the log again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from registry.db.clock import now
from registry.db.models.catalog import Shard, Source, Tombstone
from registry.db.models.erasures import ErasureStep
from registry.db.models.log import LogEntry
from registry.erasure import receipts
from registry.erasure.receipts import NOT_COVERED, canonical_json, complete_erasure
from registry.erasure.request import forget_source
from registry.erasure.runner import finish_erasure
from registry.erasure.verify import verify_receipt
from registry.errors import Conflict, Invalid
from registry.ids import new_id
from registry.log import chain
from registry.log.signing import SigningKeyUnusable, open_signer
from registry.registry import Registry
from registry.storage.keys import sample_key
from registry.storage.ownership import mark_store
from registry.storage.s3 import S3Store
from tests.registry.database_fixtures import sqlite_only
from tests.registry.erasure.fixtures import FORGET, SeededSource, SimulatedKill, killed_at, seed_source
from tests.registry.factories import make_sample, make_shard

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

    from tests.servers.s3 import S3Server

Document = dict[str, Any]


def forget_and_finish(registry: Registry, scope: str = "source") -> tuple[SeededSource, Document]:
    seeded = seed_source(registry, name="the album of Ada")
    receipt = finish_erasure(registry, FORGET[scope](registry, seeded).id).receipt
    assert receipt is not None
    return seeded, json.loads(json.dumps(receipt))


def failed_checks(registry: Registry, receipt: Document, public: str | None = None) -> dict[str, str]:
    """Return the details of the failed checks by their names."""
    verification = verify_receipt(registry, receipt, public=public)
    return {check.name: check.detail for check in verification.checks if not check.ok}


@pytest.mark.parametrize("scope", ["source", "shard", "sample"])
def test_a_receipt_holds(registry: Registry, scope: str) -> None:
    seeded, receipt = forget_and_finish(registry, scope)

    verification = verify_receipt(registry, receipt)

    assert verification.holds, verification.checks
    assert {"signature", "objects", "rows", "write_claims", "log"} <= {check.name for check in verification.checks}
    assert (receipt["scope"], receipt["source"]) == (scope, str(seeded.source))
    assert receipt["requested_by"] == str(seeded.owner.user_id)
    assert receipt["not_covered"] == NOT_COVERED
    assert verify_receipt(registry, receipt, public=registry.signer.public).holds


def test_a_receipt_with_earlier_names_still_verifies(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    build_document = receipts._build_document

    def build_earlier_document(*arguments: Any) -> dict[str, Any]:
        document = build_document(*arguments)
        log = document.pop("log")
        return document | {"audit": {{"entry": "line", "entry_hash": "line_hash"}.get(k, k): v for k, v in log.items()}}

    monkeypatch.setattr(receipts, "_build_document", build_earlier_document)
    erasure = forget_source(registry, (seeded := seed_source(registry)).owner, seeded.source)
    with killed_at("erasure: before the receipt"), pytest.raises(SimulatedKill):
        finish_erasure(registry, erasure.id)
    with registry.database.write_transaction() as session:
        for old, new in {"serving": "unserve", "holdings": "write_claims", "look": "verify"}.items():
            session.execute(update(ErasureStep).where(ErasureStep.name == new).values(name=old))

    complete_erasure(registry, erasure.id)

    receipt = finish_erasure(registry, erasure.id).receipt
    assert receipt is not None
    assert receipt["audit"].keys() == {"line", "line_hash", "head", "head_hash"}
    assert [step["name"] for step in receipt["steps"]] == ["serving", "objects", "holdings", "memory", "rows", "look"]
    assert verify_receipt(registry, receipt).holds


def test_a_receipt_has_no_name_label_or_credential(registry: Registry) -> None:
    seeded, receipt = forget_and_finish(registry)
    url = registry.database.engine.url

    text = json.dumps(receipt)

    assert "Ada" not in text
    assert "label of" not in text
    assert url.password is None or url.password not in text
    assert f"{url.username}@" not in text
    assert str(Path(url.database or "").parent) == "." or str(Path(url.database or "").parent) not in text
    assert seeded.source.hex in text.replace("-", "")


@sqlite_only
def test_there_is_no_receipt_before_all_steps_are_done(registry: Registry) -> None:
    seeded = seed_source(registry)
    erasure = forget_source(registry, seeded.owner, seeded.source)

    with pytest.raises(Conflict, match="objects, write_claims, memory, rows, verify"):
        complete_erasure(registry, erasure.id)

    assert finish_erasure(registry, erasure.id).receipt is not None


EDITS: dict[str, Callable[[Document], object]] = {
    "scope": lambda receipt: receipt.update(scope="sample"),
    "time": lambda receipt: receipt.update(completed_at="2020-01-01T00:00:00+00:00"),
    "source": lambda receipt: receipt.update(task=receipt["erasure"]),
    "count": lambda receipt: receipt["steps"][1]["found"].update(objects=0),
    "limits": lambda receipt: receipt.update(not_covered="Nothing."),
    "log": lambda receipt: receipt["log"].update(entry=99),
    "signature": lambda receipt: receipt.update(
        signature=("B" if receipt["signature"][0] == "A" else "A") + receipt["signature"][1:]
    ),
    "no signature": lambda receipt: receipt.update(signature=""),
}
GARBAGE: dict[str, Callable[[Document], object]] = {
    "a list": lambda receipt: [receipt],
    "nothing": lambda _: {},
    "another version": lambda receipt: receipt | {"version": 2},
    "one field more": lambda receipt: receipt | {"approved": True},
    "no id": lambda receipt: receipt | {"source": "album"},
    "all prefixes": lambda receipt: receipt | {"prefixes": [""]},
    "no prefix": lambda receipt: receipt | {"prefixes": []},
    "somebody else's prefix": lambda receipt: receipt | {"prefixes": ["sources/"]},
}


@sqlite_only
def test_an_edited_receipt_is_not_genuine_and_garbage_is_refused(registry: Registry) -> None:
    _, receipt = forget_and_finish(registry)

    for edit in EDITS.values():
        edited = copy.deepcopy(receipt)
        edit(edited)
        assert [*failed_checks(registry, edited)] == ["signature"]
    for make in GARBAGE.values():
        with pytest.raises(Invalid, match="not a receipt"):
            verify_receipt(registry, make(copy.deepcopy(receipt)))  # type: ignore[arg-type]  # which is the point
    with pytest.raises(SigningKeyUnusable):
        verify_receipt(registry, receipt, public="no key")


@settings(max_examples=50)
@given(document=st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=5))
def test_the_signed_bytes_do_not_depend_on_the_order_of_fields(document: Document) -> None:
    turned = dict(reversed(document.items()))

    assert canonical_json(document) == canonical_json(turned)
    assert json.loads(canonical_json(document)) == {
        name: value for name, value in document.items() if name != "signature"
    }


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=st.none() | st.lists(st.text(max_size=3)) | st.dictionaries(st.text(max_size=9), st.text(max_size=3)))
@sqlite_only
def test_a_document_that_is_not_a_receipt_is_refused_in_one_line(registry: Registry, garbage: Document) -> None:
    with pytest.raises(Invalid) as refusal:
        verify_receipt(registry, garbage)

    assert "\n" not in str(refusal.value)


@sqlite_only
def test_a_signature_by_an_unknown_key_is_refused(registry: Registry, tmp_path: Path) -> None:
    stranger = open_signer(tmp_path / "stranger.pem")
    _, receipt = forget_and_finish(registry)
    forged = receipt | {"key": stranger.fingerprint}
    forged["signature"] = stranger.sign(canonical_json(forged))

    assert "not known here" in failed_checks(registry, forged)["signature"]
    assert "not signed by the key given" in failed_checks(registry, receipt, stranger.public)["signature"]
    # Its own key makes it genuine, and the log still knows nothing of it.
    assert [*failed_checks(registry, forged, stranger.public)] == ["log"]


@sqlite_only
def test_a_receipt_signed_on_another_host_verifies_also_after_later_ones(registry: Registry, tmp_path: Path) -> None:
    _, first = forget_and_finish(replace(registry, signer=open_signer(tmp_path / "host.pem")))
    _, second = forget_and_finish(registry)

    assert verify_receipt(registry, first).holds
    assert verify_receipt(registry, second).holds
    with registry.database.read_transaction() as session:
        assert list(chain.find_breaks(session)) == []
        assert session.get_one(LogEntry, first["log"]["head"] + 1).action == "erasure.completed"


def test_a_leftover_object_is_found(registry: Registry) -> None:
    seeded, receipt = forget_and_finish(registry)
    registry.objects.put(sample_key(seeded.source, seeded.first_shard, seeded.first_sample), b"back from a backup")

    failed = failed_checks(registry, receipt)

    assert [*failed] == ["objects"]
    assert seeded.first_sample in failed["objects"]


@pytest.mark.parametrize("backend", ["postgres-s3"], indirect=True)
def test_a_hidden_old_version_is_found(registry: Registry, s3_server: S3Server, s3_client: S3Client) -> None:
    bucket = f"versions-{new_id().hex}"
    s3_client.create_bucket(Bucket=bucket)
    s3_client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    store = S3Store(s3_server.settings(bucket=bucket, prefix=""), s3_client)
    mark_store(registry.database, store)
    registry = replace(registry, objects=store)
    seeded, receipt = forget_and_finish(registry)
    assert verify_receipt(registry, receipt).holds
    key = sample_key(seeded.source, seeded.first_shard, seeded.first_sample)
    store.put(key, b"once more")
    s3_client.delete_object(Bucket=bucket, Key=key)
    assert list(store.list_objects("sources/")) == []

    assert [*failed_checks(registry, receipt)] == ["objects"]


@pytest.mark.parametrize("scope", ["source", "shard", "sample"])
def test_a_row_that_is_back_is_found(registry: Registry, scope: str) -> None:
    seeded, receipt = forget_and_finish(registry, scope)
    with registry.database.write_transaction() as session:
        if scope == "source":
            session.add(Source(id=seeded.source, task_id=seeded.task, name="back", key=b"k", created_at=now()))
            session.flush()
        if scope == "sample":
            shard = session.get_one(Shard, seeded.first_shard)
            make_sample(session, shard, f"picture 0 of {shard.id}".encode())
        else:
            shard = make_shard(session, session.get_one(Source, seeded.source))
            session.execute(update(Shard).where(Shard.id == shard.id).values(id=seeded.first_shard))

    names = [*failed_checks(registry, receipt)]

    assert names == (["rows", "sample"] if scope == "sample" else ["rows"])


def test_a_picture_that_was_uploaded_again_is_reported_but_no_failure(registry: Registry) -> None:
    seeded, receipt = forget_and_finish(registry, "sample")
    body = f"picture 0 of {seeded.first_shard}".encode()
    with registry.database.write_transaction() as session:
        session.query(Tombstone).delete()
        shard = make_shard(session, session.get_one(Source, seeded.source))
        make_sample(session, shard, body)
        registry.objects.put(sample_key(seeded.source, shard.id, seeded.first_sample), body)

    verification = verify_receipt(registry, receipt)

    assert verification.holds
    assert "uploaded again" in next(check.detail for check in verification.checks if check.name == "sample")


@sqlite_only
def test_a_changed_log_is_found(registry: Registry) -> None:
    _, receipt = forget_and_finish(registry)
    with registry.database.write_transaction() as session:
        last = LogEntry.number == receipt["log"]["head"] + 1
        session.execute(update(LogEntry).where(last).values(subject={"erasure": receipt["erasure"], "receipt": "0"}))

    assert [*failed_checks(registry, receipt)] == ["log"]
