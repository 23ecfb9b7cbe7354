"""`alacarte up`: a first start runs the demo, a second finds the registry, and Ctrl-C ends both processes in order."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from alacarte.cli.up import demo
from alacarte.cli.up.demo import DIGITS, write_digits
from alacarte.prompting.backbone.vit import Backbone
from registry.access.caller import OPERATOR
from registry.catalog.sources import list_sources
from registry.erasure.request import forget_source
from registry.registry import Registry, open_registry
from registry.settings import RegistrySettings
from tests.cli.fixtures import draw, run, running
from tests.cli.up.test_supervisor import is_alive
from tests.registry.database_fixtures import sqlite_only
from tests.servers.processes import wait_until
from tests.trainer.worker.fixtures import ENDLESS, WorkerHarness

ROOT = Path(__file__).parents[3]
TIMEOUT_SECONDS = 120
SERVING = "serving at "
# A demo that is trained within seconds.
SMALL_DEMO = {"SIZE": 32, "RECIPE": {"epochs": 1, "augment": "none"}, "PICTURES": 20}
PROGRAM = f"""
from alacarte.cli.main import main
from alacarte.cli.up import demo
for name, value in {SMALL_DEMO!r}.items():
    setattr(demo, name, value)
main()
"""


@dataclass(frozen=True)
class FirstStart:
    """A first start whose printed commands were run, ended by Ctrl-C."""

    home: Path
    code: int
    out: str
    err: str
    responses: list[Any]  # to each printed command, and to the first once more in the end


@contextmanager
def running_up(home: Path, out: Path) -> Iterator[subprocess.Popen[str]]:
    """`alacarte up` as a user starts it in a terminal, with the small demo and its stdout in a file."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ALACARTE_")}
    command = [sys.executable, "-c", PROGRAM, "up", "--port", "0", "--weights", "random", "--home", str(home)]
    environment["OMP_NUM_THREADS"] = "1"
    with out.open("w") as stdout, running(command, cwd=ROOT, env=environment, stdout=stdout) as process:
        yield process


def wait_until_serving(process: subprocess.Popen[str]) -> str:
    """Return what was printed on stderr until then."""
    assert process.stderr is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith((SERVING, "error")):
        line = process.stderr.readline()
        assert line, lines
        lines.append(line)
    return "".join(lines)


def run_in_shell(line: str) -> Any:
    """Return the JSON that the command prints."""
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> FirstStart:
    """Start it, run all printed commands in a shell, and press Ctrl-C."""
    if shutil.which("curl") is None:
        pytest.skip("the printed commands need curl")
    home, out = tmp_path_factory.mktemp("up") / "it's at home", tmp_path_factory.mktemp("out") / "stdout"
    with running_up(home, out) as process:
        err = wait_until_serving(process)
        commands = [line for line in out.read_text().splitlines() if line.startswith("curl")]
        responses = [run_in_shell(line) for line in [*commands, commands[0]]]
        process.send_signal(signal.SIGINT)
        err += process.communicate(timeout=TIMEOUT_SECONDS)[1]
    return FirstStart(home, process.returncode, out.read_text(), err, responses)


def test_a_first_start_prints_commands_that_show_forgetting(first: FirstStart) -> None:
    assert (first.code, first.err.splitlines()[-1]) == (0, "stopped")

    eva, fay, erasure, erasures, eva_again = first.responses
    assert len(eva["sources"]) == len(fay["sources"]) == 2
    assert not set(eva["sources"]) & set(fay["sources"])
    assert erasures["items"][0]["id"] == erasure["id"]
    assert eva_again["sources"] == [one for one in eva["sources"] if one != erasure["source_id"]]
    assert {one["label"] for one in eva_again["results"][0]["labels"]} == set("01234")  # only bob knew the others


def test_three_tokens_are_shown_and_none_is_written_down(first: FirstStart) -> None:
    tokens = set(re.findall(r"alc_\w{12}_[\w-]{43}", first.out))

    assert len(tokens) == 3
    written = b"".join(path.read_bytes() for path in first.home.rglob("*") if path.is_file())
    assert not any(token.encode() in written for token in tokens)
    assert not any(token in first.err for token in tokens)


def test_a_second_start_finds_the_registry_and_ctrl_c_returns_the_shard_in_training(
    first: FirstStart, backbone: Backbone, tmp_path: Path
) -> None:
    registry = open_registry(RegistrySettings(home=first.home))
    harness = WorkerHarness(registry, backbone, draw(tmp_path / "pictures", each=4))
    source = harness.add_source(harness.add_task(ENDLESS))
    with running_up(first.home, tmp_path / "stdout") as process:
        wait_until_serving(process)
        harness.wait_for_training(source)
        [worker] = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_SECONDS)

    assert (process.returncode, err.splitlines()[-1]) == (0, "stopped")
    assert not is_alive(worker)
    [shard] = harness.load_shards(source)
    assert (shard.lease_id, shard.attempts) == (None, 0)
    with registry.database.read_transaction() as session:
        names = [one.name for one in list_sources(session, OPERATOR).items]
    registry.database.close()
    assert names == ["ann", "cem", "dee", "birds"]  # what was forgotten does not come back
    out = (tmp_path / "stdout").read_text()
    assert "alc_" not in out + err
    assert f"ALACARTE_HOME={shlex.quote(str(first.home))} alacarte token issue admin" in out


def test_the_worker_ends_when_the_service_is_killed(first: FirstStart, tmp_path: Path) -> None:
    with running_up(first.home, tmp_path / "stdout") as process:
        wait_until_serving(process)
        [worker] = children_of(process.pid)
        process.kill()
        process.wait()

        wait_until(lambda: not is_alive(worker), "the end of the worker", wait_s=TIMEOUT_SECONDS)


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(line) for line in listed.split()]


@sqlite_only
def test_a_demo_that_was_interrupted_is_finished_and_one_that_was_finished_never_comes_again(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "demo"
    for name, value in SMALL_DEMO.items():
        monkeypatch.setattr(demo, name, value)
    assert demo.is_due(registry, folder)

    sources = demo.create_sources(registry, folder, "vit_tiny_patch16_224")
    assert demo.is_due(registry, folder)
    assert demo.create_sources(registry, folder, "vit_tiny_patch16_224") == sources

    created = demo.issue_demo_tokens(registry, folder, sources)
    assert demo.is_due(registry, folder)
    demo.mark_finished(folder)
    assert not demo.is_due(registry, folder)
    for source in sources.values():
        forget_source(registry, OPERATOR, source)
    assert not demo.is_due(registry, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["pictures"]
    assert all(picture.path.name.startswith(picture.label) for picture in created.pictures)
    assert not any(token in repr(created) for token in created.tokens.values())


@sqlite_only
def test_a_registry_with_work_of_its_own_gets_no_demo(registry: Registry, backbone: Backbone, tmp_path: Path) -> None:
    WorkerHarness(registry, backbone, tmp_path).add_task()

    assert not demo.is_due(registry, tmp_path / "demo")


def test_a_port_that_is_taken_is_reported_before_anything_is_created(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("up", "--home", tmp_path / "home", "--port", str(port))

    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(f"cannot listen on 127.0.0.1:{port}")
    assert not (tmp_path / "home").exists()


def test_no_digit_is_in_two_sources_or_in_a_source_and_the_tests(tmp_path: Path) -> None:
    folders, tests = write_digits(tmp_path, each=100, tests=200, seed=0)

    names = [path.name for folder in folders.values() for path in folder.rglob("*.png")]
    names += [test.path.name for test in tests]
    assert len(names) == len(set(names)) == 600
    for source, folder in folders.items():
        assert sorted(path.name for path in folder.iterdir()) == [str(digit) for digit in DIGITS[source]]
