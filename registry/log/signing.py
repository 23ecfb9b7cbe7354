"""The key that signs receipts: Ed25519, made at first start, its public half known to the database."""

import hashlib
import os
from base64 import b64decode, b64encode
from pathlib import Path
from uuid import uuid4

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from registry.db.clock import now
from registry.db.models.erasures import SigningKey
from registry.errors import DomainError


class SigningKeyUnusable(DomainError):
    """The file of the signing key cannot be read or made."""

    status = 500


class Signer:
    """A private key, which never leaves its file but to sign."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = (
            key.public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            .decode()
        )
        self.fingerprint = key_fingerprint(self.public)

    def sign(self, message: bytes) -> str:
        """The signature in base64."""
        return b64encode(self._key.sign(message)).decode()


def open_signer(path: Path) -> Signer:
    """The signer of a key file, which is made if there is none."""
    try:
        if not path.exists():
            _make_key(path)
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise SigningKeyUnusable(f"the signing key {path} cannot be used ({error})") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningKeyUnusable(f"the signing key {path} is no Ed25519 key: openssl genpkey -algorithm ed25519")
    return Signer(key)


def key_fingerprint(public: str) -> str:
    """The digest by which receipts name a public key (PEM)."""
    return hashlib.sha256(_raw(_public_key(public))).hexdigest()


def is_signature_valid(message: bytes, signature: str, public: str) -> bool:
    """Whether the holder of the key signed just these bytes."""
    try:
        _public_key(public).verify(b64decode(signature, validate=True), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_key_registered(session: Session, signer: Signer) -> bool:
    """Whether the public half is known."""
    known = select(SigningKey.fingerprint).where(SigningKey.fingerprint == signer.fingerprint)
    return session.scalar(known) is not None


def register_key(session: Session, signer: Signer) -> None:
    """Makes the public half known, so that every host can check what this one signed."""
    if is_key_registered(session, signer):
        return
    try:
        with session.begin_nested():
            session.add(SigningKey(fingerprint=signer.fingerprint, public=signer.public, added_at=now()))
    except IntegrityError:  # another process of this host was faster
        pass


def _public_key(public: str) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(public.encode())
    except ValueError as error:
        raise SigningKeyUnusable("this is no public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise SigningKeyUnusable("this public key is not of Ed25519")
    return key


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _make_key(path: Path) -> None:
    """Writes a new key; of several processes that start at once, one wins and the others read its key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    draft = path.with_name(f"{path.name}.{uuid4()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(made)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
