"""The deployment page is true: its commands, settings, metrics and files exist."""

import re
from typing import Any

import pytest
from prometheus_client import generate_latest
from typer.main import get_command

from alacarte.cli.main import app
from service.engine.stats import EngineStats
from service.observability.metrics import Metrics
from service.settings import ServiceSettings
from tests.docker.files import COMPOSE, OVERRIDES, ROOT, read_compose, variables_in

PAGE = (ROOT / "docs" / "DEPLOY.md").read_text()


def require_command(line: str) -> None:
    arguments = [word.strip("'\",") for word in line.split()]
    command: Any = get_command(app)  # Any: typer has no type of its own for a group
    while hasattr(command, "commands"):
        command = command.commands[arguments.pop(0)]
        if not arguments:
            break
    options = {name for parameter in getattr(command, "params", []) for name in parameter.opts}
    assert {word for word in arguments if word.startswith("--")} <= options


def test_every_command_on_the_page_exists() -> None:
    # The words after `alacarte`, or after what stands for it in compose, as far as they may name a command.
    pattern = r"(?:`|    )(?:docker compose run --rm migrate|alacarte) ([a-z]+(?: [^`\n#]*)?)"
    lines = set(re.findall(pattern, PAGE))

    assert len(lines) > 12
    for line in lines:
        require_command(line)


@pytest.mark.parametrize("line", ["erasure undo", "doctor --cure"])
def test_an_unknown_command_is_found(line: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        require_command(line)


def test_every_setting_on_the_page_exists() -> None:
    named = set(re.findall(r"ALACARTE_([A-Z0-9_]+[A-Z0-9])", PAGE)) - {"S3"}  # which stands for all of them

    assert named
    assert {name.lower() for name in named} <= set(ServiceSettings.model_fields)


def test_every_metric_on_the_page_exists() -> None:
    metrics = Metrics()
    metrics.watch_engine(lambda: EngineStats(**dict.fromkeys(EngineStats.__dataclass_fields__, 0)))
    metrics.request_seconds.labels("GET", "/", "200").observe(1)
    measured = set(re.findall(r"^(alacarte_\w+)", generate_latest(metrics.registry).decode(), re.MULTILINE))
    families = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in measured}

    named = set(re.findall(r"\balacarte_(?!front|stores)\w+", PAGE))
    assert len(named) > 6
    assert named <= measured | families


def test_every_part_network_variable_and_file_on_the_page_exists() -> None:
    document = read_compose()
    texts = "".join(path.read_text() for path in (COMPOSE, *OVERRIDES))
    variables = {one.name for one in variables_in(texts)}

    assert {f"alacarte_{name}" for name in document["networks"]} >= set(
        re.findall(r"alacarte_(?:front|stores)\b", PAGE)
    )
    parts = set(re.findall(r"(?:exec(?: -T)?|logs|compose stop) ([a-z]+)", PAGE))
    assert parts
    assert parts <= set(document["services"])
    for name in ("POSTGRES_PASSWORD", "S3_SECRET_KEY", "PUBLISH", "WEIGHTS", "SERVICE_CPUS"):
        assert f"`{name}" in PAGE
        assert name in variables
    for name in re.findall(r"\b(docker/[\w.]+\.(?:yml|conf))\b", PAGE):
        assert (ROOT / name).is_file()
