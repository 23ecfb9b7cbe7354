"""The documented settings are the real ones."""

from dataclasses import asdict
from pathlib import Path

from registry.settings import RegistrySettings
from service.app import engine_settings
from service.engine.settings import EngineSettings
from service.settings import ServiceSettings

ROOT = Path(__file__).parents[2]


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs" / "SERVICE.md").read_text(encoding="utf-8")
    registry = (ROOT / "docs" / "REGISTRY.md").read_text(encoding="utf-8")
    for name, field in ServiceSettings.model_fields.items():
        if name in RegistrySettings.model_fields:
            assert f"ALACARTE_{name.upper()}`" in registry or f"_{name.upper()}`" in registry
        else:
            default = "" if field.default is None else f"`{field.default}`"
            assert f"| `ALACARTE_{name.upper()}` | {default} | {field.description} |" in page


def test_every_setting_of_the_engine_can_be_set_and_has_one_default() -> None:
    settings = ServiceSettings(
        device="mps",
        dtype="bfloat16",
        weights="random",
        max_backbones=3,
        prompt_cache_bytes=1,
        max_batch=1,
        max_pairs=1,
        max_waiting=1,
        compute_threads=1,
        decode_threads=1,
        load_threads=1,
        load_bytes=1,
    )

    assert engine_settings(ServiceSettings()) == EngineSettings()
    defaults = asdict(EngineSettings())
    assert {name for name, value in asdict(engine_settings(settings)).items() if value != defaults[name]} == set(
        defaults
    )
