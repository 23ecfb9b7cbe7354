"""Reading leaves no files behind and needs little memory, whatever happens."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registry.datasets.loader import open_dataset
from registry.errors import DomainError
from tests.registry.conftest import noise

if TYPE_CHECKING:
    from tests.registry.conftest import DatasetBuilder


def fail_within(path: Path, scratch: Path, error: type[BaseException]) -> None:
    with open_dataset(path, scratch=scratch) as collection:
        assert collection.samples[0].path.is_file()
        raise error


def test_an_error_of_the_caller_leaves_no_scratch(builder: DatasetBuilder) -> None:
    path = builder.zip({"a/1.png": builder.picture(1)})

    for error in (RuntimeError, KeyboardInterrupt, DomainError):
        with pytest.raises(error):
            fail_within(path, builder.scratch, error)
        assert list(builder.scratch.iterdir()) == []


def test_an_interrupted_reading_leaves_no_scratch(builder: DatasetBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = builder.zip({"a/1.png": builder.picture(1)})
    written: list[int] = []

    def interrupt(*_: object, **__: object) -> None:
        written.append(len(list(builder.scratch.rglob("*"))))
        raise KeyboardInterrupt

    monkeypatch.setattr("registry.datasets.validate.decode_picture", interrupt)

    with pytest.raises(KeyboardInterrupt), open_dataset(path, scratch=builder.scratch):
        pass

    assert written == [2]  # the private folder and one file
    assert list(builder.scratch.iterdir()) == []


def test_the_scratch_is_private(builder: DatasetBuilder) -> None:
    with open_dataset(builder.zip({"a/1.png": builder.picture(1)}), scratch=builder.scratch) as collection:
        folder = collection.samples[0].path.parent

        assert folder.parent == builder.scratch
        assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("pack", ["zip", "tar", "gz", "folder"])
def test_memory_does_not_grow_with_the_collection(builder: DatasetBuilder, pack: str) -> None:
    files = {f"a/{n}.png": noise(800) for n in range(8)}  # 15 MB, incompressible
    path = builder.pack(pack, files)
    del files

    tracemalloc.start()
    try:
        collection = builder.read(path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(collection.samples) == 8
    assert peak_bytes < 4_000_000
