"""From the location in the settings to the store that it names."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from registry.errors import DomainError
from registry.storage.folder import FolderStore
from registry.storage.keys import InvalidKey
from registry.storage.store import ObjectStore


class InvalidStoreLocation(DomainError):
    """A location names no store that there is."""

    status = 500

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: name a folder, or s3://bucket/prefix")


def open_store(
    location: str,
    *,
    endpoint: str | None = None,
    region: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
) -> ObjectStore:
    """The store at a folder's path, file://path or s3://bucket/prefix; nothing is made or reached yet.

    The keywords are for S3 alone; without keys, the credentials come from wherever boto3 finds them.
    """
    if "://" not in location:
        if not location.strip():
            raise InvalidStoreLocation("objects need a location")
        return FolderStore(Path(location).expanduser())
    parts = urlsplit(location)
    if "@" in parts.netloc or parts.query or parts.fragment:
        # Not shown: it may hold a secret.
        raise InvalidStoreLocation("a location holds no credentials and no options")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or parts.path in ("", "/"):
            raise InvalidStoreLocation(f"{location!r} names no folder of this machine")
        return FolderStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        return _open_bucket(parts.netloc, parts.path, endpoint, region, access_key, secret_key)
    raise InvalidStoreLocation(f"there is no store for {location!r}")


def _open_bucket(
    bucket: str, prefix: str, endpoint: str | None, region: str | None, access_key: str | None, secret_key: str | None
) -> ObjectStore:
    try:
        # Only here: an installation with a folder has no boto3.
        from registry.storage.s3 import S3Store
        from registry.storage.s3_client import S3Settings
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("boto3", "botocore"):
            raise
        raise DomainError("objects in S3 need boto3: pip install 'alacarte[s3]'") from error
    try:
        return S3Store(S3Settings(bucket, prefix.strip("/"), endpoint, region, access_key, secret_key))
    except InvalidKey as error:
        raise InvalidStoreLocation(f"{prefix!r} is no prefix of keys ({error})") from error
