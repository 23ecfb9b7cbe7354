"""The same commands on this machine's registry and on its service print the same documents and tables."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.fixtures import Ended, draw, run
from tests.cli.service.conftest import RunAs
from tests.service.deployment import TASK, Deployment

Run = Callable[..., Ended]
# What differs between two runs: ids, times, tokens, their prefixes, names, and who did it (the operator has no user).
VARIABLE = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z|alc_\w+[-\w]*"
    r'|(?<="prefix": ")\w+|(?<=-)(local|service)\b|[0-9a-f]{64}|"(granted|requested|created)_by": ("[^"]*"|null)'
)


@pytest.fixture
def run_locally(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command on the registry of the deployment, without its service."""
    home = Path(str(deployment.registry.database.engine.url.database)).parent

    def run_locally(*arguments: str | Path) -> Ended:
        monkeypatch.delenv("ALACARTE_URL", raising=False)
        monkeypatch.setenv("ALACARTE_HOME", str(home))
        return run(*arguments)

    return run_locally


def normalize(ended: Ended) -> tuple[int, str]:
    assert ended.code == 0, ended.err
    return ended.code, VARIABLE.sub("*", ended.out)


READING: tuple[tuple[str, ...], ...] = (
    ("source", "list"), ("source", "list", "--task", TASK), ("source", "samples", "{source}"),
    ("task", "list"), ("task", "show", TASK), ("user", "list"), ("user", "show", "owner"), ("user", "quota", "owner"),
    ("token", "list"), ("grant", "list"), ("grant", "list", "--source", "{source}"), ("release", "list"),
    ("release", "show", "pinned"), ("erasure", "list"), ("erasure", "show", "{erasure}"),
    ("erasure", "receipt", "{erasure}"), ("erasure", "verify", "{erasure}"),
)  # fmt: skip


def test_what_is_read_is_the_same(deployment: Deployment, run_locally: Run, run_as: RunAs) -> None:
    assert run_locally("release", "pin", "pinned", "--task", TASK).code == 0
    erasure = run_locally("source", "forget", str(deployment.add_source()), "--json").document["id"]
    names = {"source": str(deployment.source), "erasure": erasure}

    for command in READING:
        arguments = [argument.format(**names) for argument in command]
        formats = ([],) if command[1] == "receipt" else ([], ["--json"])
        for more in formats:
            local, remote = run_locally(*arguments, *more), run_as("admin", *arguments, *more)
            assert (remote.code, remote.out) == (local.code, local.out) == (0, local.out), arguments


def test_what_is_changed_is_confirmed_alike(
    deployment: Deployment, run_locally: Run, run_as: RunAs, tmp_path: Path
) -> None:
    def act(run: Run, where: str) -> list[tuple[int, str]]:
        """Create, change and remove one of everything."""
        task, user, group, source = (f"{kind}-{where}" for kind in ("task", "user", "group", "source"))
        pictures = draw(tmp_path / where, each=2)
        commands: list[tuple[str | Path, ...]] = [
            ("task", "add", task, "--label", "cat", "--label", "dog", "--label", "emu", "--recipe", '{"epochs": 2}'),
            ("user", "add", user, "--role", "owner"), ("user", "add", group, "--group"), ("user", "join", group, user),
            ("user", "show", group), ("user", "show", user), ("user", "quota", user, "--bytes", "100000"),
            ("user", "bind", user, "--subject", f"x-{where}", "--issuer", "https://id.example"),
            ("user", "unbind", user),
            ("source", "add", source, pictures, "--task", task, "--owner", user, "--shards", "2"),
            ("source", "cancel", source), ("source", "resume", source),
            ("grant", "add", group, source, "--task", task), ("grant", "revoke", group, source),
            ("release", "pin", f"v1-{where}", "--task", TASK), ("release", "remove", f"v1-{where}"),
            ("user", "leave", group, user), ("user", "show", user), ("user", "remove", group),
            ("task", "add", f"other-{where}"), ("task", "show", f"other-{where}"), ("task", "remove", f"other-{where}"),
        ]  # fmt: skip
        results = [normalize(run(*command, "--json")) for command in commands]
        token = run("token", "issue", user, "--note", "scanner", "--days", "1", "--json")
        results += [normalize(token), normalize(run("token", "revoke", token.document["id"], "--json"))]
        assert (run("source", "add", source, pictures, "--task", task).code, run("task", "remove", task).code) == (1, 1)
        forgotten = run("source", "forget", source, "--no-wait", "--json")
        return [*results, normalize(forgotten)]

    assert act(run_locally, "local") == act(lambda *arguments: run_as("admin", *arguments), "service")
