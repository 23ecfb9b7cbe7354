"""Where the registry lives: read once at the entry point, from ALACARTE_* variables, and passed down."""

import os
from pathlib import Path
from typing import TypeVar

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import URL

from registry.errors import DomainError


class InvalidSettings(DomainError):
    """A setting cannot be read; the message names it."""

    status = 500


def _default_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "alacarte"


class RegistrySettings(BaseSettings):
    """Everything under one folder by default; PostgreSQL and S3 by naming them."""

    model_config = SettingsConfigDict(env_prefix="ALACARTE_", env_ignore_empty=True, extra="ignore")

    home: Path = Field(default_factory=_default_home, description="The folder for all that is not put elsewhere.")
    database: str = Field(
        default="",
        repr=False,
        description="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME; registry.db in the home.",
    )
    objects: str = Field(default="", description="A folder, or s3://BUCKET/PREFIX; objects in the home.")
    scratch: Path | None = Field(default=None, description="A folder for temporary files; scratch in the home.")
    signing_key: Path | None = Field(
        default=None,
        description="The private key of receipts (PEM, Ed25519), made if missing; signing-key.pem in the home.",
    )
    s3_endpoint: str | None = Field(
        default=None, description="The URL of an S3-compatible server; AWS if none is given."
    )
    s3_region: str | None = Field(default=None, description="The S3 region.")
    s3_access_key: str | None = Field(default=None, description="The S3 key; as boto3 finds it if none is given.")
    s3_secret_key: SecretStr | None = Field(
        default=None, description="The S3 secret; as boto3 finds it if none is given."
    )
    quota_bytes: int = Field(
        default=100 * 2**30, ge=0, description="What each owner may store unless an admin says otherwise; 0: no limit."
    )

    @property
    def default_quota_bytes(self) -> int | None:
        """What each owner may store; None: as much as there is room for."""
        return self.quota_bytes or None

    @property
    def database_url(self) -> str:
        """The database, wherever it is."""
        file = str(self.home.expanduser() / "registry.db")
        return self.database or URL.create("sqlite", database=file).render_as_string()

    @property
    def objects_location(self) -> str:
        """The object store, wherever it is."""
        return self.objects or str(self.home.expanduser() / "objects")

    @property
    def scratch_folder(self) -> Path:
        """The folder for temporary files."""
        return (self.scratch or self.home / "scratch").expanduser()

    @property
    def signing_key_file(self) -> Path:
        """The file of the key that signs receipts."""
        return (self.signing_key or self.home / "signing-key.pem").expanduser()


SettingsT = TypeVar("SettingsT", bound=RegistrySettings)


def load_registry_settings() -> RegistrySettings:
    """The registry's settings, as the environment has them."""
    return load_settings(RegistrySettings)


def load_settings(kind: type[SettingsT], **given: object) -> SettingsT:
    """Settings of a kind as the environment has them, but for those that are given."""
    try:
        return kind(**given)  # type: ignore[arg-type]  # pydantic checks what they are
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        raise InvalidSettings(f"ALACARTE_{name}: {first['msg']}") from error
