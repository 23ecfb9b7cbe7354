"""Whom an issuer vouches for and how much they may store, by the commands."""

from pathlib import Path

import pytest

from tests.cli.fixtures import run, run_json


@pytest.fixture
def backend() -> str:
    return "sqlite-folder"


@pytest.fixture(autouse=True)
def _at_home(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of this test is the one that commands find."""
    for name, value in environment.items():
        if name.startswith("ALACARTE_"):
            monkeypatch.setenv(name, value)


def test_a_subject_is_bound_and_unbound(monkeypatch: pytest.MonkeyPatch) -> None:
    run_json("user", "add", "ann")
    bound = run_json("user", "bind", "ann", "--subject", "248289761001", "--issuer", "https://id.example")

    assert (bound["issuer"], bound["subject"]) == ("https://id.example", "248289761001")
    assert run_json("user", "show", "ann")["subject"] == "248289761001"
    assert run_json("user", "unbind", "ann")["subject"] is None
    assert "no subject of the user" in run("user", "unbind", "ann").error

    assert "--issuer" in run("user", "bind", "ann", "--subject", "x").error
    monkeypatch.setenv("ALACARTE_OIDC_ISSUER", "https://default.example")
    monkeypatch.setenv("ALACARTE_OIDC_AUDIENCE", "alacarte")
    assert run_json("user", "bind", "ann", "--subject", "x")["issuer"] == "https://default.example"


def test_a_quota_is_shown_set_and_given_back_to_the_default(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALACARTE_QUOTA_BYTES", "5000000")
    run_json("task", "add", "animals")
    run_json("user", "add", "ann", "--role", "owner")
    assert run_json("user", "quota", "ann") == {
        "user": "ann",
        "used_bytes": 0,
        "quota_bytes": 5_000_000,
        "is_default": True,
    }

    assert run_json("user", "quota", "ann", "--bytes", "10")["quota_bytes"] == 10
    refused = run("source", "add", "pets", pictures, "--task", "animals", "--owner", "ann")
    assert refused.code != 0
    assert "of 10 bytes" in refused.error
    assert run_json("user", "quota", "ann", "--default")["is_default"] is True
    run_json("source", "add", "pets", pictures, "--task", "animals", "--owner", "ann")
    assert run_json("user", "quota", "ann")["used_bytes"] > 0
    assert run("user", "quota", "ann", "--default", "--bytes", "1").code == 2
