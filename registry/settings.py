"""The registry's settings: read once at the entry point, from ALACARTE_* variables, and passed down."""

import os
from pathlib import Path
from typing import TypeVar

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import URL

from registry.errors import DomainError


class InvalidSettings(DomainError):
    """A setting is not valid; the message names it."""

    status = 500


def _default_home() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "alacarte"


class RegistrySettings(BaseSettings):
    """Everything is in one folder by default; `database` and `objects` name PostgreSQL and S3."""

    model_config = SettingsConfigDict(env_prefix="ALACARTE_", env_ignore_empty=True, extra="ignore")

    home: Path = Field(
        default_factory=_default_home, description="The folder for everything that no other setting moves."
    )
    database: str = Field(
        default="",
        repr=False,
        description="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME. Default: registry.db in the home folder.",
    )
    objects: str = Field(
        default="", description="A folder, or s3://BUCKET/PREFIX. Default: objects in the home folder."
    )
    scratch: Path | None = Field(
        default=None, description="The folder for temporary files. Default: scratch in the home folder."
    )
    signing_key: Path | None = Field(
        default=None,
        description="The key that signs receipts (PEM, Ed25519), created if missing. "
        "Default: signing-key.pem in the home folder.",
    )
    s3_endpoint: str | None = Field(default=None, description="The URL of an S3-compatible server. Default: AWS.")
    s3_region: str | None = Field(default=None, description="The S3 region.")
    s3_access_key: str | None = Field(default=None, description="The S3 access key. Default: what boto3 finds.")
    s3_secret_key: SecretStr | None = Field(default=None, description="The S3 secret key. Default: what boto3 finds.")
    quota_bytes: int = Field(
        default=100 * 2**30,
        ge=0,
        description="How many bytes each owner may store, unless an admin sets another quota; 0: no limit.",
    )

    @property
    def default_quota_bytes(self) -> int | None:
        """Return how many bytes each owner may store; None: no limit."""
        return self.quota_bytes or None

    @property
    def database_url(self) -> str:
        """Return the URL of the database."""
        file = str(self.home.expanduser() / "registry.db")
        return self.database or URL.create("sqlite", database=file).render_as_string()

    @property
    def objects_location(self) -> str:
        """Return the location of the object store."""
        return self.objects or str(self.home.expanduser() / "objects")

    @property
    def scratch_folder(self) -> Path:
        """Return the folder for temporary files."""
        return (self.scratch or self.home / "scratch").expanduser()

    @property
    def signing_key_file(self) -> Path:
        """Return the file of the key that signs receipts."""
        return (self.signing_key or self.home / "signing-key.pem").expanduser()


SettingsT = TypeVar("SettingsT", bound=RegistrySettings)


def load_registry_settings() -> RegistrySettings:
    """Read the registry's settings from the environment."""
    return load_settings(RegistrySettings)


def load_settings(settings_class: type[SettingsT], **overrides: object) -> SettingsT:
    """Read settings of a class from the environment; the overrides take precedence."""
    try:
        return settings_class(**overrides)  # type: ignore[arg-type]  # pydantic validates them
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        raise InvalidSettings(f"ALACARTE_{name}: {first['msg']}") from error
