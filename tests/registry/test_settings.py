"""Settings: everything is in one folder by default, each part can be moved, and no secret is shown."""

from pathlib import Path

import pytest

from registry.db import migrate
from registry.errors import DatabaseUnusable
from registry.registry import open_registry, upgrade_registry
from registry.settings import InvalidSettings, RegistrySettings, load_registry_settings
from registry.storage.folder import FolderStore


def test_everything_is_under_one_folder_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALACARTE_HOME", str(tmp_path / "h"))
    settings = load_registry_settings()

    assert settings.database_url == f"sqlite:///{tmp_path / 'h' / 'registry.db'}"
    assert Path(settings.objects_location).parent == settings.scratch_folder.parent == tmp_path / "h"
    assert settings.signing_key_file.parent == tmp_path / "h"


def test_the_default_home_is_the_users_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALACARTE_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    assert load_registry_settings().home == tmp_path / "alacarte"


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALACARTE_DATABASE", "postgresql://ann:sesame@host/x")
    monkeypatch.setenv("ALACARTE_S3_SECRET_KEY", "sesame")

    settings = load_registry_settings()

    assert "sesame" in settings.database_url
    assert "sesame" not in repr(settings) + str(settings)


def test_an_invalid_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "registry.settings.RegistrySettings", lambda: RegistrySettings.model_validate({"home": ["not a path"]})
    )

    with pytest.raises(InvalidSettings, match="ALACARTE_HOME"):
        load_registry_settings()


def test_a_registry_opens_once_its_database_has_tables(tmp_path: Path) -> None:
    settings = RegistrySettings(home=tmp_path / "new")
    with pytest.raises(DatabaseUnusable, match="alacarte db upgrade"):
        open_registry(settings)
    assert list(tmp_path.iterdir()) == []  # looking made nothing
    assert upgrade_registry(settings) == (None, migrate.revisions()[-1])

    registry = open_registry(settings)

    assert isinstance(registry.objects, FolderStore)
    again = open_registry(settings)
    assert again.signer.fingerprint == registry.signer.fingerprint
    for opened in (registry, again):
        opened.database.close()
