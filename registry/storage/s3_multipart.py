"""Putting bytes into a bucket, once: in one request if they are few, in parts if they are many."""

import base64
import hashlib
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, Literal

from botocore.exceptions import BotoCoreError, ClientError

from registry.storage.s3_client import error_code, error_status
from registry.storage.streams import iter_chunks

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import CompletedPartTypeDef

PART_BYTES = 8 * 1024 * 1024

# `taken`: the key holds something; `again`: another writer or remover was in the way, and it may be tried again.
Outcome = Literal["put", "taken", "again"]


def upload(client: "S3Client", bucket: str, key: str, file: BinaryIO) -> Outcome:
    """The file's bytes, from where it stands, under a key that held nothing; what was there is never replaced."""
    # Two parts are read ahead: a body's size need not be known, and is never held in memory.
    first, second = file.read(PART_BYTES), file.read(PART_BYTES)
    try:
        if second:
            _upload_parts(client, bucket, key, chain([first, second], iter_chunks(file, PART_BYTES)))
        else:
            client.put_object(Bucket=bucket, Key=key, Body=first, ChecksumSHA256=_checksum(first), IfNoneMatch="*")
    except ClientError as error:
        if error_status(error) == 412:
            return "taken"
        if error_code(error) in ("ConditionalRequestConflict", "NoSuchUpload"):
            return "again"
        raise
    return "put"


def _upload_parts(client: "S3Client", bucket: str, key: str, pieces: Iterable[bytes]) -> None:
    started = client.create_multipart_upload(Bucket=bucket, Key=key, ChecksumAlgorithm="SHA256")
    upload_id = started["UploadId"]
    parts: list[CompletedPartTypeDef] = []
    try:
        for number, piece in enumerate(pieces, start=1):
            checksum = _checksum(piece)
            part = client.upload_part(
                Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=piece, ChecksumSHA256=checksum
            )
            parts.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": checksum})
        client.complete_multipart_upload(
            Bucket=bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
        )
    except BaseException:
        # What cannot be aborted now stays a trace, which a removal finds.
        with suppress(BotoCoreError, ClientError):
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
        raise


def _checksum(piece: bytes) -> str:
    return base64.b64encode(hashlib.sha256(piece).digest()).decode()
