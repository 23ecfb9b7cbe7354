"""The documented settings are the real ones, and invalid ones are refused."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from registry.settings import InvalidSettings, RegistrySettings
from service.app import engine_settings
from service.engine.settings import EngineSettings
from service.settings import ServiceSettings, read_service_settings

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
    limits = "prompt_cache_bytes max_batch max_pairs max_waiting compute_threads decode_threads load_threads load_bytes"
    changed: dict[str, Any] = {"device": "mps", "dtype": "bfloat16", "weights": "random", "max_backbones": 3}
    settings = ServiceSettings(**changed | dict.fromkeys(limits.split(), 1))

    assert engine_settings(ServiceSettings()) == EngineSettings()
    defaults, values = asdict(EngineSettings()), asdict(engine_settings(settings))
    assert [name for name in defaults if values[name] == defaults[name]] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"oidc_issuer": "https://id.example"}, "ALACARTE_OIDC_AUDIENCE"),
        ({"oidc_issuer": "http://id.example", "oidc_audience": "x"}, "ALACARTE_OIDC_KEYS"),
        *(
            ({"oidc_algorithms": algorithms}, "ALACARTE_OIDC_ALGORITHMS")
            for algorithms in ("RS256,HS256", "none", "HS256", "", "RS256,,ES256", "rs256")
        ),
        *(
            ({"pinned_releases": releases}, "TASK/RELEASE")
            for releases in ("stable", "animals/", "/stable", "animals/stable,birds")
        ),
    ],
    ids=str,
)
def test_invalid_settings_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        read_service_settings(**settings)


def test_an_invalid_environment_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALACARTE_PORT", "many")

    with pytest.raises(InvalidSettings, match="ALACARTE_PORT"):
        read_service_settings()


def test_lists_in_settings_are_parsed() -> None:
    settings = read_service_settings(
        pinned_releases="animals/stable, birds/v1/2 ,",
        oidc_issuer="http://id.example",  # accepted without TLS because its keys are in a file
        oidc_audience="x",
        oidc_keys="keys.json",
        oidc_algorithms="RS256, PS256",
    )

    assert settings.pinned_release_names == (("animals", "stable"), ("birds", "v1/2"))
    assert settings.allowed_algorithms == ("RS256", "PS256")
