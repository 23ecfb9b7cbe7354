"""A boto3 client with timeouts, and the translation of its errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError

from registry.storage.store import StoreUnreachable

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

ATTEMPTS = 5
CONNECT_S = 5
READ_S = 30
CONNECTIONS = 32  # one store serves many threads


@dataclass(frozen=True)
class S3Settings:
    """The bucket and its credentials; without keys, boto3 finds credentials itself."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)


def make_client(settings: S3Settings, *, attempts: int) -> "S3Client":
    """Make a client that tries each request up to `attempts` times, each time with a timeout."""
    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=CONNECTIONS,
        # Bucket names as subdomains need DNS entries that a self-hosted server seldom has.
        s3={"addressing_style": "path" if settings.endpoint else "auto"},
        # We send a SHA-256 with every body; the default of boto3 fails on older servers.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        return boto3.session.Session().client(
            "s3",
            endpoint_url=settings.endpoint,
            region_name=settings.region,
            aws_access_key_id=settings.access_key,
            aws_secret_access_key=settings.secret_key,
            config=config,
        )
    except (BotoCoreError, ValueError) as error:
        raise StoreUnreachable(
            f"the S3 client for bucket {settings.bucket} cannot be created ({type(error).__name__}): "
            "check the endpoint, the region and the keys in the settings"
        ) from error


def error_code(error: ClientError) -> str:
    """Return the error code of the service."""
    return error.response.get("Error", {}).get("Code", "unknown")


def error_status(error: ClientError) -> int:
    """Return the HTTP status of the response, or 0."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def is_missing_key(error: ClientError) -> bool:
    """Return whether the bucket exists but does not have the key."""
    return error_status(error) == 404 and error_code(error) != "NoSuchBucket"


@contextmanager
def translate_s3_errors(name: str) -> Iterator[None]:
    """Raise StoreUnreachable for every error of boto3, with a message of one line without credentials."""
    try:
        yield
    except ClientError as error:
        raise StoreUnreachable(f"{name} {_describe(error_code(error), error_status(error))}") from error
    except (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError) as error:
        raise StoreUnreachable(
            f"{name} needs credentials: set ALACARTE_S3_ACCESS_KEY and ALACARTE_S3_SECRET_KEY"
        ) from error
    except (HTTPClientError, BotoConnectionError) as error:
        raise StoreUnreachable(f"{name} does not answer: check that it runs, and ALACARTE_S3_ENDPOINT") from error
    except BotoCoreError as error:
        raise StoreUnreachable(f"{name} cannot be used ({type(error).__name__}): check the settings") from error


def _describe(code: str, status: int) -> str:
    if status in (401, 403):
        return f"refuses these credentials ({code}): check both keys, and their rights on the bucket"
    if status == 404:
        return "does not exist: check the name of the bucket, or create it with `alacarte db upgrade`"
    if status >= 500 or status == 429:
        return f"is failing or busy ({code}): try again, and check its log"
    return f"refuses a request ({code}): check the bucket, the region and the server's log"
