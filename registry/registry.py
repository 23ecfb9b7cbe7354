"""The registry: database, object store, scratch space and signing key, opened from the settings."""

from dataclasses import dataclass

from registry.db import migrate
from registry.db.database import Database
from registry.log.signing import Signer, is_key_registered, open_signer, register_key
from registry.settings import RegistrySettings
from registry.storage.factory import open_store
from registry.storage.ownership import mark_store
from registry.storage.scratch import ScratchSpace
from registry.storage.store import ObjectStore


@dataclass(frozen=True)
class Registry:
    """The parts of a registry, for operations that need more than one of them."""

    database: Database
    objects: ObjectStore
    scratch: ScratchSpace
    signer: Signer
    default_quota_bytes: int | None = None  # of owners without a quota of their own; None: no limit


def open_registry(settings: RegistrySettings) -> Registry:
    """Open the configured registry; raise DatabaseUnusable if its tables are not those of this version."""
    database = open_database(settings)
    migrate.require_current(database)
    signer = open_signer(settings.signing_key_file)
    with database.read_transaction() as session:
        is_registered = is_key_registered(session, signer)
    if not is_registered:  # only then: a process that only reads does not wait for writers
        with database.write_transaction() as session:
            register_key(session, signer)
    scratch = ScratchSpace(settings.scratch_folder)
    return Registry(database, open_object_store(settings), scratch, signer, settings.default_quota_bytes)


def upgrade_registry(settings: RegistrySettings) -> tuple[str | None, str | None]:
    """Create the tables and the object store, or upgrade them; return the revision before and after."""
    objects = open_object_store(settings)
    database = Database(settings.database_url, response_timeout_seconds=None)  # migrating much data takes long
    try:
        revisions = migrate.upgrade(database)
        objects.prepare()
        mark_store(database, objects)
    finally:
        database.close()
    return revisions


def open_database(settings: RegistrySettings) -> Database:
    """Open the configured database, without a check of its tables."""
    return Database(settings.database_url)


def open_object_store(settings: RegistrySettings) -> ObjectStore:
    """Open the configured object store; it need not exist yet."""
    secret = settings.s3_secret_key
    return open_store(
        settings.objects_location,
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        access_key=settings.s3_access_key,
        secret_key=None if secret is None else secret.get_secret_value(),
    )
