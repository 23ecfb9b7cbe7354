"""The signing key is created once, is private, and its signatures are valid for the signed bytes only."""

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from sqlalchemy import select

from registry.db.database import Database
from registry.db.models.log import SigningKey
from registry.log.signing import (
    SigningKeyUnusable,
    is_signature_valid,
    key_fingerprint,
    open_signer,
    register_key,
)
from tests.registry.factories import run_at_once


def test_a_signature_is_valid_for_its_bytes_and_its_key_only(tmp_path: Path) -> None:
    signer, other = open_signer(tmp_path / "key.pem"), open_signer(tmp_path / "other.pem")
    signature = signer.sign(b"all is gone")

    assert is_signature_valid(b"all is gone", signature, signer.public)
    assert not is_signature_valid(b"all is gone.", signature, signer.public)
    assert not is_signature_valid(b"all is gone", signature, other.public)
    assert not is_signature_valid(b"all is gone", other.sign(b"all is gone"), signer.public)
    for garbage in ("", "x", "!!!!", signature[:-4], signature + signature, "é"):
        assert not is_signature_valid(b"all is gone", garbage, signer.public)


def test_the_key_is_created_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "key.pem"

    signers = run_at_once(*[lambda: open_signer(path)] * 8)

    assert len(signers) == 8
    assert {signer.fingerprint for signer in signers} == {key_fingerprint(signers[0].public)}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["key.pem"]


def test_a_key_of_another_kind_and_garbage_are_refused(tmp_path: Path) -> None:
    curve = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "curve.pem").write_bytes(curve)
    (tmp_path / "garbage.pem").write_bytes(b"garbage")

    with pytest.raises(SigningKeyUnusable, match="not an Ed25519 key"):
        open_signer(tmp_path / "curve.pem")
    with pytest.raises(SigningKeyUnusable, match=r"garbage\.pem"):
        open_signer(tmp_path / "garbage.pem")
    with pytest.raises(SigningKeyUnusable, match="not a public key"):
        key_fingerprint("garbage")


def test_registering_twice_keeps_one_row_with_the_public_key_only(database: Database, tmp_path: Path) -> None:
    signer = open_signer(tmp_path / "key.pem")
    for _ in range(2):
        with database.write_transaction() as session:
            register_key(session, signer)

    with database.read_transaction() as session:
        (key,) = session.scalars(select(SigningKey)).all()
    assert (key.fingerprint, key.public) == (signer.fingerprint, signer.public)
    assert "PRIVATE" not in key.public
