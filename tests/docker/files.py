"""The files by which it is deployed, as tests read them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE = ROOT / "docker-compose.yml"
OVERRIDES = tuple(sorted(DOCKER.glob("compose.*.yml")))
DOCKERFILE = DOCKER / "Dockerfile"
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?P<sign>:\?|:-)?(?P<rest>[^}]*)\}")


@dataclass(frozen=True)
class Variable:
    """A place of a compose file that is filled in from the environment."""

    name: str
    sign: str  # ":?" refuses to go on without it, ":-" has a default
    rest: str


def read_compose(path: Path = COMPOSE) -> dict[str, Any]:  # Any: as YAML has it
    """The document, its anchors resolved and its variables left as they stand."""
    document = yaml.safe_load(path.read_text())
    assert isinstance(document, dict)
    return document


def variables_in(text: str) -> list[Variable]:
    """All that is filled in, in order."""
    return [Variable(match["name"], match["sign"] or "", match["rest"]) for match in _VARIABLE.finditer(text)]


def instructions_of(dockerfile: str) -> list[tuple[str, str]]:
    """Each instruction of a Dockerfile with its arguments, continued lines joined and comments left out."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines()) if word]


def stages_of(dockerfile: str) -> dict[str, list[tuple[str, str]]]:
    """The instructions of each stage by its name, those of the stages it is made from first."""
    stages: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for word, rest in instructions_of(dockerfile):
        if word == "FROM":
            origin, _, name = rest.partition(" AS ")
            stages[name] = list(stages.get(origin, []))
        else:
            stages[name].append((word, rest))
    return stages
