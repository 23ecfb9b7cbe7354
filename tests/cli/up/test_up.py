"""`alacarte up`: a first start shows all there is, a second finds it again, and the end is in order."""

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

from alacarte.cli.commands import up
from alacarte.cli.up import digits_demo
from registry.access.caller import OPERATOR
from registry.bootstrap import open_registry
from registry.catalog.sources import list_sources
from registry.erasure.request import forget_source
from registry.registry import Registry
from registry.settings import RegistrySettings
from tests.cli.fixtures import Ended, draw, run
from tests.servers.processes import until
from tests.trainer.worker.fixtures import ENDLESS, add_source, add_task, is_training, shards_of

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 120
SERVING = "serving at "
RANDOM = ("--port", "0", "--weights", "random")
on_sqlite = pytest.mark.parametrize("home", ["sqlite-folder"], indirect=True)


@dataclass(frozen=True)
class FirstStart:
    """A first start that was looked at, and ended by Ctrl-C."""

    home: Path
    ended: Ended
    said: list[str]
    pasted: list[Any]  # what a shell said to each line, and to the first once more in the end


@contextmanager
def by_itself() -> Iterator[pytest.MonkeyPatch]:
    """Nothing in the environment but what a start takes by itself, and a demo that is over soon."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("ALACARTE_")]:
            patch.delenv(name)
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setattr(digits_demo, "SIZE", 32)
        patch.setattr(digits_demo, "RECIPE", {"epochs": 1, "augment": "none"})
        patch.setattr(digits_demo, "PICTURES", 20)
        yield patch


@pytest.fixture
def alone() -> Iterator[None]:
    with by_itself():
        yield


def paste(line: str) -> Any:
    """What a shell says to the line, as JSON."""
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> FirstStart:
    """Somebody starts it, pastes all lines into a shell, and presses Ctrl-C."""
    if shutil.which("curl") is None:
        pytest.skip("the lines are for curl")
    home = tmp_path_factory.mktemp("up") / "it's at home"
    said: list[str] = []
    shown: list[str] = []
    pasted: list[Any] = []

    def hear(line: str) -> None:
        said.append(line)
        if line.startswith(SERVING):
            lines = [line for line in shown if line.startswith("curl")]
            pasted.extend(paste(line) for line in [*lines, lines[0]])
            raise KeyboardInterrupt

    tell = up._tell

    def show(lines: list[str]) -> None:
        shown.extend(lines)
        tell(lines)

    with by_itself() as patch:
        patch.setattr(up, "say", hear)
        patch.setattr(up, "_tell", show)
        ended = run("up", "--home", home, *RANDOM)
    return FirstStart(home, ended, said, pasted)


def test_a_first_start_shows_the_whole_story_in_lines_that_can_be_pasted(first: FirstStart) -> None:
    assert (first.ended.code, first.said[-1]) == (0, "stopped")

    eva, fay, erasure, erasures, eva_again = first.pasted
    assert len(eva["sources"]) == len(fay["sources"]) == 2
    assert not set(eva["sources"]) & set(fay["sources"])
    assert erasures["items"][0]["id"] == erasure["id"]
    assert eva_again["sources"] == [one for one in eva["sources"] if one != erasure["source_id"]]
    assert {one["label"] for one in eva_again["results"][0]["labels"]} == set("01234")  # bob alone knew the others


def test_three_tokens_are_shown_and_none_is_written_down(first: FirstStart) -> None:
    tokens = set(re.findall(r"alc_\w{12}_[\w-]{43}", first.ended.out))

    assert len(tokens) == 3
    kept = b"".join(path.read_bytes() for path in first.home.rglob("*") if path.is_file())
    assert not any(token.encode() in kept for token in tokens)
    assert not any(token in line for token in tokens for line in first.said)


def test_a_second_start_finds_it_again_and_ctrl_c_gives_back_what_is_in_training(
    alone: None, first: FirstStart, tmp_path: Path
) -> None:
    registry = open_registry(RegistrySettings(home=first.home))
    source = add_source(registry, add_task(registry, ENDLESS), draw(tmp_path / "pictures", each=4))
    with process("--home", str(first.home)) as running:
        assert running.stderr is not None
        while not running.stderr.readline().startswith((SERVING, "error")):
            pass
        until(lambda: is_training(registry, source), "the training", wait_s=PATIENCE_SECONDS)
        children = children_of(running.pid)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=PATIENCE_SECONDS)

    assert (running.returncode, err.splitlines()[-1]) == (0, "stopped")
    assert len(children) == 2
    assert not any(is_alive(child) for child in children)
    [shard] = shards_of(registry, source)
    assert (shard.lease_id, shard.attempts) == (None, 0)
    with registry.database.reading() as session:
        names = [one.name for one in list_sources(session, OPERATOR).items]
    registry.database.close()
    assert names == ["ann", "cem", "dee", "birds"]  # what was forgotten does not come back
    assert "alc_" not in out + err
    assert f"ALACARTE_HOME={shlex.quote(str(first.home))} alacarte token issue admin" in out


@contextmanager
def process(*more: str) -> Iterator[subprocess.Popen[str]]:
    """`alacarte up` as a person starts it in a terminal."""
    with subprocess.Popen(
        [sys.executable, "-m", "alacarte", "up", *RANDOM, *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that starts tests in the background lets them ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def children_of(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(line) for line in found.split()]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@on_sqlite
def test_a_demo_that_was_interrupted_is_finished_and_one_that_was_finished_never_comes_again(
    alone: None, registry: Registry, tmp_path: Path
) -> None:
    folder = tmp_path / "demo"
    assert digits_demo.is_wanted(registry, folder)

    sources = digits_demo.bring_up(registry, folder, "vit_tiny_patch16_224")
    assert digits_demo.is_wanted(registry, folder)
    assert digits_demo.bring_up(registry, folder, "vit_tiny_patch16_224") == sources

    demo = digits_demo.hand_out(registry, folder, sources)
    assert digits_demo.is_wanted(registry, folder)
    digits_demo.finish(folder)
    assert not digits_demo.is_wanted(registry, folder)
    for source in sources.values():
        forget_source(registry, OPERATOR, source)
    assert not digits_demo.is_wanted(registry, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["pictures"]
    assert all(picture.path.name.startswith(picture.label) for picture in demo.pictures)
    assert not any(token in repr(demo) for token in demo.tokens.values())


@on_sqlite
def test_a_registry_with_work_of_its_own_gets_no_demo(registry: Registry, tmp_path: Path) -> None:
    add_task(registry)

    assert not digits_demo.is_wanted(registry, tmp_path / "demo")


def test_a_port_that_is_taken_is_told_before_anything_is_made(alone: None, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        ended = run("up", "--home", tmp_path / "home", "--port", str(port))

    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(f"cannot listen on 127.0.0.1:{port}")
    assert not (tmp_path / "home").exists()
