"""Damaged files of every kind: each is accepted whole or refused with an expected error, and leaves nothing behind.

`make test` runs a few hundred inputs, `make stress` a hundred thousand others.
"""

from __future__ import annotations

import io
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import httpx
import pytest
import torch
from hypothesis import strategies as st

from alacarte.prompting.backbone.preprocess import Preprocessing, decode
from alacarte.prompting.errors import ArtifactInvalid, BackboneMismatch
from alacarte.prompting.errors import PictureDecodeError as NotSeen
from alacarte.prompting.predict import check_backbone
from alacarte.prompting.prompt.artifact import prompt_from_bytes, prompt_to_bytes
from registry.datasets import picture as reading
from registry.datasets.limits import DEFAULT_LIMITS
from registry.datasets.loader import open_dataset
from registry.errors import DatasetRejected, DomainError, Invalid, InvalidPicture
from registry.fsck.scan import scan
from registry.ids import new_id
from registry.registry import Registry
from tests.registry.conftest import DatasetBuilder
from tests.registry.database_fixtures import sqlite_only
from tests.registry.ingest.fixtures import Uploader
from tests.service.deployment import backbone
from tests.stress.limits.damage import damaged, damaged_members, damaged_prompts
from tests.stress.limits.fuzz import fuzz
from tests.stress.limits.requests import DamagedRequest, damaged_connections, damaged_requests
from tests.stress.limits.samples import archives, pictures, prompts
from tests.stress.limits.server import ServerProcess, start_server

PREPROCESSING = Preprocessing(size=32, crop_pct=0.9, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


@dataclass(frozen=True)
class Inputs:
    """The number of inputs of each kind."""

    pictures: int
    archives: int
    uploads: int
    prompts: int
    requests: int
    connections: int


SHORT = Inputs(pictures=200, archives=100, uploads=30, prompts=80, requests=80, connections=20)
FULL = Inputs(pictures=50_000, archives=30_000, uploads=2_000, prompts=14_000, requests=3_000, connections=1_000)


@pytest.fixture(
    scope="module", params=[pytest.param(SHORT, id="short"), pytest.param(FULL, id="full", marks=pytest.mark.stress)]
)
def inputs(request: pytest.FixtureRequest) -> Inputs:
    assert isinstance(request.param, Inputs)
    return request.param


@pytest.fixture(scope="module")
def server(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("fuzz")
    with start_server(folder, sqlite_template, rate_per_s=0, head_timeout_s=0.5, read_timeout_s=0.5) as server:
        yield server


@pytest.fixture
def outcomes() -> Iterator[Counter[str]]:
    """Count the outcomes and print them at the end."""
    counts: Counter[str] = Counter()
    yield counts
    sys.stdout.write(f"\n{counts.total()} inputs: {dict(counts)}\n")


def outcome(work: Callable[[], object], *expected: type[Exception]) -> str:
    """Return "accepted" or the class of the expected error, whose message must be one line; other errors propagate."""
    try:
        work()
    except expected as error:
        message = str(error)
        assert message
        assert "\n" not in message
        return type(error).__name__
    return "accepted"


def test_every_accepted_format_is_covered_and_valid(tmp_path: Path) -> None:
    for data in pictures():
        assert reading.decode_picture(io.BytesIO(data), DEFAULT_LIMITS.max_pixels).mode == "RGB"
        assert PREPROCESSING(decode(data)).shape == (3, 32, 32)
    for number, data in enumerate(archives()):
        file = tmp_path / str(number)
        file.write_bytes(data)
        with open_dataset(file) as collection:
            assert collection.samples


def test_a_damaged_picture_is_refused_or_can_be_trained_on(inputs: Inputs, outcomes: Counter[str]) -> None:
    def check(data: bytes) -> None:
        stored = outcome(lambda: reading.decode_picture(io.BytesIO(data), DEFAULT_LIMITS.max_pixels), InvalidPicture)
        decoded = outcome(lambda: _preprocess(data), NotSeen)
        outcomes[f"stored {stored}, decoded {decoded}"] += 1
        assert stored != "accepted" or decoded == "accepted"

    fuzz(damaged(pictures()), inputs.pictures, check)


def _preprocess(data: bytes) -> None:
    assert torch.isfinite(PREPROCESSING(decode(data))).all()


def test_a_damaged_archive_is_refused_and_leaves_nothing(
    inputs: Inputs, outcomes: Counter[str], tmp_path: Path
) -> None:
    file, scratch = tmp_path / "archive", tmp_path / "scratch"

    def read(data: bytes, skip: bool) -> None:
        file.write_bytes(data)
        with open_dataset(file, scratch=scratch, unreadable="skip" if skip else "refuse") as collection:
            assert all(sample.path.is_relative_to(scratch) for sample in collection.samples)

    def check(given: tuple[bytes, bool]) -> None:
        outcomes[outcome(lambda: read(*given), DatasetRejected)] += 1
        assert {path.name for path in tmp_path.rglob("*")} <= {"archive", "scratch"}

    scratch.mkdir()
    fuzz(st.tuples(st.one_of(damaged(archives()), damaged_members()), st.booleans()), inputs.archives, check)


@sqlite_only
def test_a_damaged_upload_has_all_its_rows_and_objects_or_none(
    inputs: Inputs, outcomes: Counter[str], registry: Registry, tmp_path: Path
) -> None:
    uploader = Uploader(registry, DatasetBuilder(tmp_path))
    numbers = count()

    def check(given: tuple[bytes, bool]) -> None:
        data, skip = given
        before = uploader.rows()
        with registry.scratch.job_folder(new_id()) as scratch:
            file = scratch / "upload"
            file.write_bytes(data)
            options = {"scratch": scratch, "unreadable": "skip" if skip else "refuse"}
            result = outcome(
                lambda: uploader.upload(file, f"source {next(numbers)}", **options), DatasetRejected, Invalid
            )
            assert not file.exists()
        outcomes[result] += 1
        assert result == "accepted" or uploader.rows() == before
        uploader.assert_tidy()

    fuzz(st.tuples(st.one_of(damaged(archives()), damaged_members()), st.booleans()), inputs.uploads, check)


def test_a_damaged_prompt_is_refused_or_is_a_prompt(inputs: Inputs, outcomes: Counter[str]) -> None:
    def read(data: bytes) -> None:
        prompt = prompt_from_bytes(data)
        check_backbone(backbone(), "sent", prompt)
        again = prompt_from_bytes(prompt_to_bytes(prompt))
        assert again.metadata == prompt.metadata

    def check(data: bytes) -> None:
        outcomes[outcome(lambda: read(data), ArtifactInvalid, BackboneMismatch)] += 1

    fuzz(damaged_prompts(prompts()), inputs.prompts, check)


def test_damaged_requests_never_cause_a_server_error(
    inputs: Inputs, outcomes: Counter[str], server: ServerProcess
) -> None:
    deployment = server.deployment
    source = deployment.add_source()

    def check(sent: DamagedRequest) -> None:
        answer = send(server, sent, str(source))
        outcomes[str(answer.status_code)] += 1
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"

    fuzz(damaged_requests(), inputs.requests, check)

    require_sound(server)


def send(server: ServerProcess, sent: DamagedRequest, source: str) -> httpx.Response:
    path = sent.path.format(source=source, name=server.deployment.new_name("fuzz"))
    who = "user" if sent.path.startswith(("/predict", "/v2")) else "owner"
    return server.deployment.request(who, sent.method, path, content=sent.body, headers=sent.headers)


def test_invalid_http_does_no_harm(inputs: Inputs, outcomes: Counter[str], server: ServerProcess) -> None:
    def check(data: bytes) -> None:
        token = server.deployment.tokens["user"].encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=300) as connection:
            try:
                connection.sendall(data.replace(b"TOKEN", token))
                data_received = connection.recv(2**16)
            except ConnectionError:
                data_received = b""
        status = data_received[9:12].decode() if data_received.startswith(b"HTTP/1.1 ") else "nothing"
        outcomes[status] += 1
        assert not status.startswith("5")

    fuzz(damaged_connections(), inputs.connections, check)

    require_sound(server)


def require_sound(server: ServerProcess) -> None:
    """Assert that the service answers, logged no traceback, and that rows, objects and scratch agree."""
    assert server.deployment.request(None, "GET", "/readyz").status_code == 200
    assert "Traceback" not in server.part.output
    assert list(scan(server.deployment.registry)) == []
    left = {path.name for path in server.deployment.registry.scratch.folder.glob("*")}
    assert left <= {"scratch-id"}


def test_an_unexpected_error_is_found() -> None:
    def check(data: bytes) -> None:
        assert outcome(lambda: int(data), DomainError) == "accepted"

    with pytest.raises(ValueError, match="invalid literal"):
        fuzz(damaged((b"17",)), 100, check)
