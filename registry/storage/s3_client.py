"""The door to an S3 service: a client with bounded waits, and the errors of its library in our words."""

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
from botocore.exceptions import ConnectionError as Unconnected

from registry.storage.errors import StoreUnreachable

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

ATTEMPTS = 5
CONNECT_S = 5
READ_S = 30
CONNECTIONS = 32  # one store serves many threads


@dataclass(frozen=True)
class S3Settings:
    """Where the objects lie; without keys, the credentials come from wherever boto3 finds them."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)


def make_client(settings: S3Settings, *, attempts: int) -> "S3Client":
    """A client that tries each request so many times and never waits without end."""
    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=CONNECTIONS,
        # Names of buckets as subdomains want a DNS that a server of one's own seldom has.
        s3={"addressing_style": "path" if settings.endpoint else "auto"},
        # Every body carries its SHA-256 by our own hand; the library's default breaks on older servers.
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
            f"no client for bucket {settings.bucket} can be made ({type(error).__name__}): "
            "check the endpoint, the region and the keys in the settings"
        ) from error


def error_code(error: ClientError) -> str:
    """The service's own word for what went wrong."""
    return error.response.get("Error", {}).get("Code", "unknown")


def error_status(error: ClientError) -> int:
    """The HTTP status of the answer, or 0."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def is_missing_key(error: ClientError) -> bool:
    """Whether the bucket answered that it does not hold the key."""
    return error_status(error) == 404 and error_code(error) != "NoSuchBucket"


@contextmanager
def translate_s3_errors(name: str) -> Iterator[None]:
    """Whatever the library raises becomes StoreUnreachable, in one line without credentials."""
    try:
        yield
    except ClientError as error:
        raise StoreUnreachable(f"{name} {_refusal(error_code(error), error_status(error))}") from error
    except (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError) as error:
        raise StoreUnreachable(f"{name} needs credentials, and there are none: set both keys") from error
    except (HTTPClientError, Unconnected) as error:
        raise StoreUnreachable(f"{name} does not answer: check that it runs, and the endpoint") from error
    except BotoCoreError as error:
        raise StoreUnreachable(f"{name} cannot be used ({type(error).__name__}): check the settings") from error


def _refusal(code: str, status: int) -> str:
    if status in (401, 403):
        return f"refuses these credentials ({code}): check both keys, and their rights on the bucket"
    if status == 404:
        return "has no bucket: check its name, or have it made by `prepare`"
    if status >= 500 or status == 429:
        return f"is ill or busy ({code}): try again, and look into its log"
    return f"refuses a request ({code}): check the bucket, the region and the server's log"
