"""A received body is on disk completely and within its limit, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import LimitExceeded
from registry.ingest.receive_body import receive_body
from registry.storage.scratch import ScratchUnavailable


@given(chunks=st.lists(st.binary(max_size=50)))
def test_the_file_has_the_bytes_that_were_sent(chunks: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("scratch") / "body"
    body = b"".join(chunks)

    receive_body(iter(chunks), path, len(body))

    assert path.read_bytes() == body


def test_a_body_over_the_limit_is_stopped_where_it_passes_it(tmp_path: Path) -> None:
    taken = []

    def endless() -> Iterator[bytes]:
        while True:
            taken.append(1)
            yield bytes(10)

    with pytest.raises(LimitExceeded, match="more than 25 bytes"):
        receive_body(endless(), tmp_path / "body", 25)

    assert len(taken) == 3
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_body_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"some"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        receive_body(broken(), tmp_path / "body", 100)

    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_not_overwritten_and_a_missing_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"mine")

    with pytest.raises(ScratchUnavailable):
        receive_body([b"yours"], path, 100)
    with pytest.raises(ScratchUnavailable, match="make room") as caught:
        receive_body([b"some"], tmp_path / "gone" / "body", 100)

    assert path.read_bytes() == b"mine"
    assert "\n" not in str(caught.value)
