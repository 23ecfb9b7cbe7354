"""The two ways for pictures into the registry: as a new source, and into one that is there."""

import secrets
from pathlib import Path
from uuid import UUID

from registry.access.caller import Caller
from registry.catalog.names import validate_name
from registry.catalog.sources import KEY_BYTES
from registry.datasets.limits import DEFAULT_LIMITS, DatasetLimits
from registry.datasets.validate import Unreadable
from registry.ids import new_id
from registry.ingest.pipeline import IngestResult, UploadSpec, ingest
from registry.ingest.store_objects import ProgressCallback
from registry.ingest.target import ExistingSource, NewSource
from registry.registry import Registry


def upload_source(
    registry: Registry,
    caller: Caller,
    task_id: UUID,
    name: str,
    path: Path,
    *,
    shards: int = 1,
    owner_id: UUID | None = None,
    limits: DatasetLimits = DEFAULT_LIMITS,
    within: str | None = None,
    unreadable: Unreadable = "refuse",
    report: ProgressCallback | None = None,
    consume: bool = False,
) -> IngestResult:
    """A new source of the pictures at the path, which belongs to the caller unless an admin names another owner.

    With `consume`, the file at the path is removed in the end, and forgetting the source waits until it is.
    """
    name = validate_name("source", name)
    destination = NewSource(new_id(), secrets.token_bytes(KEY_BYTES), caller, task_id, name, owner_id)
    return ingest(registry, destination, UploadSpec(path, shards, limits, within, unreadable, consume), report)


def add_samples(
    registry: Registry,
    caller: Caller,
    source_id: UUID,
    path: Path,
    *,
    shards: int = 1,
    readmit: bool = False,
    limits: DatasetLimits = DEFAULT_LIMITS,
    within: str | None = None,
    unreadable: Unreadable = "refuse",
    report: ProgressCallback | None = None,
    consume: bool = False,
) -> IngestResult:
    """More pictures for a source, in shards of their own: those that are there are not touched.

    Pictures that were forgotten come back only with `readmit`, which takes the right to forget too.
    """
    destination = ExistingSource(source_id, caller, readmit)
    return ingest(registry, destination, UploadSpec(path, shards, limits, within, unreadable, consume), report)
