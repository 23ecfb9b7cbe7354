"""The Ed25519 key that signs receipts: created at the first start, its public key registered in the database."""

import hashlib
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from registry.db.clock import now
from registry.db.models.log import SigningKey
from registry.errors import DomainError
from registry.storage.files import create_atomically


class SigningKeyUnusable(DomainError):
    """A signing key cannot be read or created."""

    status = 500


class Signer:
    """A private key with its public key and fingerprint."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = (
            key.public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            .decode()
        )
        self.fingerprint = key_fingerprint(self.public)

    def sign(self, message: bytes) -> str:
        """Return the signature in base64."""
        return b64encode(self._key.sign(message)).decode()


def open_signer(path: Path) -> Signer:
    """Return the signer of a key file, which is created if it does not exist."""
    try:
        if not path.exists():
            _create_key(path)
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise SigningKeyUnusable(
            f"the signing key {path} cannot be used ({error}): check the file, or set ALACARTE_SIGNING_KEY to another"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningKeyUnusable(
            f"the signing key {path} is not an Ed25519 key: create one with `openssl genpkey -algorithm ed25519`"
        )
    return Signer(key)


def key_fingerprint(public: str) -> str:
    """Return the SHA-256 by which receipts name a public key (PEM)."""
    return hashlib.sha256(_raw(_public_key(public))).hexdigest()


def is_signature_valid(message: bytes, signature: str, public: str) -> bool:
    """Return whether the private key of this public key signed exactly these bytes."""
    try:
        _public_key(public).verify(b64decode(signature, validate=True), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_key_registered(session: Session, signer: Signer) -> bool:
    """Return whether the database has the public key."""
    statement = select(SigningKey.fingerprint).where(SigningKey.fingerprint == signer.fingerprint)
    return session.scalar(statement) is not None


def register_key(session: Session, signer: Signer) -> None:
    """Store the public key, so that every host can verify what this one signed."""
    if is_key_registered(session, signer):
        return
    try:
        with session.begin_nested():
            session.add(SigningKey(fingerprint=signer.fingerprint, public=signer.public, added_at=now()))
    except IntegrityError:  # another process of this host stored it first
        pass


def _public_key(public: str) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(public.encode())
    except ValueError as error:
        raise SigningKeyUnusable("this is not a public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise SigningKeyUnusable("this is not an Ed25519 public key")
    return key


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _create_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with suppress(FileExistsError):  # of several processes that start at once, one creates the key
        create_atomically(path, [pem])
