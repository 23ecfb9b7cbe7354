"""Open the object store at a location: a folder or an S3 bucket."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from registry.errors import DomainError
from registry.storage.folder import FolderStore
from registry.storage.keys import InvalidKey
from registry.storage.store import ObjectStore


class InvalidStoreLocation(DomainError):
    """The location is neither a folder nor a bucket."""

    status = 500

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: set ALACARTE_OBJECTS to a folder, or to s3://bucket/prefix")


def open_store(
    location: str,
    *,
    endpoint: str | None = None,
    region: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
) -> ObjectStore:
    """Return the store at a folder's path, file://path or s3://bucket/prefix, without creating or contacting it.

    The keyword arguments are for S3; without keys, boto3 finds credentials itself.
    """
    if "://" not in location:
        if not location.strip():
            raise InvalidStoreLocation("the location of objects is empty")
        return FolderStore(Path(location).expanduser())
    parts = urlsplit(location)
    if "@" in parts.netloc or parts.query or parts.fragment:
        # The location is not shown: it may contain a secret.
        raise InvalidStoreLocation("a location must not have credentials or options")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or parts.path in ("", "/"):
            raise InvalidStoreLocation(f"{location!r} is not a folder of this machine")
        return FolderStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        return _open_s3(parts.netloc, parts.path, endpoint, region, access_key, secret_key)
    raise InvalidStoreLocation(f"{location!r} is not a known kind of location")


def _open_s3(
    bucket: str, prefix: str, endpoint: str | None, region: str | None, access_key: str | None, secret_key: str | None
) -> ObjectStore:
    try:
        # Imported here, because an installation with a folder has no boto3.
        from registry.storage.s3 import S3Store
        from registry.storage.s3_client import S3Settings
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("boto3", "botocore"):
            raise
        raise DomainError("objects in S3 need boto3: pip install 'alacarte[s3]'") from error
    try:
        return S3Store(S3Settings(bucket, prefix.strip("/"), endpoint, region, access_key, secret_key))
    except InvalidKey as error:
        raise InvalidStoreLocation(f"{prefix!r} is not a prefix of keys ({error})") from error
