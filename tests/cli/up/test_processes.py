"""The parts of `alacarte up` by themselves: children that end, lines that can be pasted, progress that is told."""

import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alacarte.cli.errors import CommandRefused
from alacarte.cli.up import supervisor
from alacarte.cli.up.bootstrap import free_port, make_first_admin
from alacarte.cli.up.messages import predict_line
from alacarte.cli.up.pick_backbone import ARCHITECTURE, choose_backbone
from alacarte.cli.up.processes import WARD, Child, running
from alacarte.cli.up.progress import Lines
from alacarte.cli.up.supervisor import Household, url_of
from alacarte.prompting.backbone.weights import DEFAULT_BACKBONE
from registry.access.caller import OPERATOR
from registry.access.users import create_user
from registry.catalog.source_status import ShardState, SourceState
from registry.registry import Registry
from service.settings import ServiceSettings
from tests.servers.processes import until

on_sqlite = pytest.mark.parametrize("home", ["sqlite-folder"], indirect=True)
PATIENCE_SECONDS = 60


def child(folder: Path, *arguments: str) -> Child:
    return Child("child", arguments, os.environ, folder / "log" / f"{arguments[0]}.log")


def test_a_service_that_ends_by_itself_ends_all_with_its_last_words(tmp_path: Path) -> None:
    service, worker = child(tmp_path, "nonsense"), child(tmp_path, "--version")

    with running([service, worker]):
        until(lambda: service.has_ended, "the end", wait_s=PATIENCE_SECONDS)
        with pytest.raises(CommandRefused, match=r"the service ended by itself, see .*No such command"):
            Household(service, worker, "", lambda _: None).tick()


def test_a_worker_that_ends_by_itself_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "REST_SECONDS", 0.0)
    service, worker = child(tmp_path, "train", "--help"), child(tmp_path, "--version")
    has_ended = Child.has_ended.fget  # type: ignore[attr-defined]  # mypy: a property has one
    monkeypatch.setattr(Child, "has_ended", property(lambda one: one is worker and has_ended(one)))
    told: list[str] = []
    home = Household(service, worker, "", told.append)

    with running([service, worker]):
        first = worker.pid

        def is_another() -> bool:
            home.tick()
            return worker.pid != first

        until(is_another, "another worker", wait_s=PATIENCE_SECONDS)

    assert told[0].startswith("the worker ended by itself, and is started again")


@on_sqlite
def test_a_child_ends_when_whoever_started_it_is_gone(registry: Registry, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", WARD, "work", "--weights", "random"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
        assert worker.stdin is not None
        worker.stdin.close()  # as the system does for a process that is killed

        assert worker.wait(PATIENCE_SECONDS) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1"])
def test_a_host_that_is_not_this_machine_is_not_blamed_on_the_port(host: str) -> None:
    with pytest.raises(CommandRefused, match="ALACARTE_HOST") as caught:
        free_port(host, 0)

    assert "--port" not in str(caught.value)


@on_sqlite
def test_there_is_a_first_admin_once(registry: Registry) -> None:
    assert make_first_admin(registry) is not None
    assert make_first_admin(registry) is None


@on_sqlite
def test_an_admin_who_is_there_is_the_first(registry: Registry) -> None:
    with registry.database.writing() as session:
        create_user(session, OPERATOR, "root", "admin")

    assert make_first_admin(registry) is None


def test_weights_that_are_given_are_for_the_default_architecture() -> None:
    assert choose_backbone("random", 112, lambda _: None) == ARCHITECTURE == DEFAULT_BACKBONE.partition(".")[0]


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12))
def test_a_path_is_one_word_to_the_shell_and_one_name_to_curl(name: str) -> None:
    words = shlex.split(predict_line("http://host", "token", Path("/folder") / name))

    [image] = [word for word in words if word.startswith("image=@")]
    quoted = image.removeprefix('image=@"').removesuffix('"')
    assert quoted.replace('\\"', '"').replace("\\\\", "\\") == str(Path("/folder") / name)


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80"), ("0.0.0.0", "http://127.0.0.1:80"), ("::", "http://[::1]:80")],
)
def test_the_service_is_reached_from_here_wherever_it_listens(host: str, url: str) -> None:
    assert url_of(ServiceSettings(host=host, port=80)) == url


def state(progress: float, error: str | None = None) -> SourceState:
    shard = ShardState(UUID(int=1), 0, 1, 4, 9, "training", progress, 0, None, error, None)
    return SourceState(
        UUID(int=2), UUID(int=3), "ann", None, datetime(2025, 1, 1, tzinfo=UTC), frozenset(), ("cat",), (shard,)
    )


def test_progress_is_told_step_by_step_and_faults_when_they_are_new() -> None:
    told: list[str] = []
    show = Lines(told.append)

    for progress in (0.0, 0.1, 0.3, 0.4, 0.99):
        show(state(progress))
    show(state(0.99, "no disk"))
    show(state(0.99, "no disk"))
    show(replace(state(1.0), id=UUID(int=2)))

    assert told == [
        "ann: 0 % trained",
        "ann: 30 % trained",
        "ann: 99 % trained",
        "ann: 99 % trained; no disk",
        "ann: trained",
    ]
