"""The page of settings is true."""

from pathlib import Path

from registry.settings import RegistrySettings
from service.settings import ServiceSettings

ROOT = Path(__file__).parents[2]


def test_every_setting_stands_in_the_documents_as_it_is() -> None:
    page = (ROOT / "docs" / "SERVICE.md").read_text(encoding="utf-8")
    registry = (ROOT / "docs" / "REGISTRY.md").read_text(encoding="utf-8")
    for name, field in ServiceSettings.model_fields.items():
        if name in RegistrySettings.model_fields:
            assert f"ALACARTE_{name.upper()}`" in registry or f"_{name.upper()}`" in registry
        else:
            default = "" if field.default is None else f"`{field.default}`"
            assert f"| `ALACARTE_{name.upper()}` | {default} | {field.description} |" in page
