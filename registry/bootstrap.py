"""From the settings to a registry that can be worked with."""

from registry.db import migrate
from registry.db.database import Database
from registry.log import signing
from registry.registry import Registry
from registry.settings import RegistrySettings
from registry.storage.factory import open_store
from registry.storage.ownership import mark_store
from registry.storage.scratch import ScratchSpace
from registry.storage.store import ObjectStore


def open_database(settings: RegistrySettings) -> Database:
    """The database that the settings name, whatever its tables."""
    return Database(settings.database_url)


def open_object_store(settings: RegistrySettings) -> ObjectStore:
    """The object store that the settings name, be it there or not."""
    secret = settings.s3_secret_key
    return open_store(
        settings.objects_location,
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        access_key=settings.s3_access_key,
        secret_key=None if secret is None else secret.get_secret_value(),
    )


def upgrade_registry(settings: RegistrySettings) -> tuple[str | None, str | None]:
    """Brings tables and object store to this version, or into being; returns the revision before and after."""
    objects = open_object_store(settings)
    database = Database(
        settings.database_url, response_timeout_seconds=None
    )  # a step may take long where there is much
    try:
        revisions = migrate.upgrade(database)
        objects.prepare()
        mark_store(database, objects)
    finally:
        database.close()
    return revisions


def open_registry(settings: RegistrySettings) -> Registry:
    """The registry that the settings name; refused unless its database has the tables of this version."""
    database = open_database(settings)
    migrate.require_current(database)
    objects = open_object_store(settings)
    signer = signing.open_signer(settings.signing_key_file)
    with database.read_transaction() as session:
        is_known = signing.is_key_registered(session, signer)
    if not is_known:  # whoever only reads need not wait for writers
        with database.write_transaction() as session:
            signing.register_key(session, signer)
    return Registry(database, objects, ScratchSpace(settings.scratch_folder), signer, settings.default_quota_bytes)
