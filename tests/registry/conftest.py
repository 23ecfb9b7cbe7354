"""Builds datasets of real pictures, and checks what must hold whenever one is read."""

import hashlib
import io
import os
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from alacarte.api.literals import UnreadablePolicy
from registry.datasets.dataset import Dataset
from registry.datasets.limits import DEFAULT_LIMITS, DatasetLimits
from registry.datasets.loader import open_dataset
from registry.errors import DatasetRejected


def picture(number: int, size: int = 6, kind: str = "PNG") -> bytes:
    """Return a tiny picture; different numbers give different bytes."""
    shade = (number % 256, number // 256 % 256, 77)
    file = io.BytesIO()
    Image.new("RGB", (size, size), shade).save(file, kind)
    return file.getvalue()


def noise(size: int) -> bytes:
    """Return a picture that cannot be compressed."""
    file = io.BytesIO()
    Image.frombytes("RGB", (size, size), os.urandom(size * size * 3)).save(file, "PNG", compress_level=0)
    return file.getvalue()


class DatasetBuilder:
    """Builds datasets in a folder, and checks that reading them leaves no file behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scratch = folder / "scratch"
        self.scratch.mkdir()

    picture = staticmethod(picture)

    def file(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path

    def tree(self, files: Mapping[str, bytes], name: str = "pictures") -> Path:
        root = self.folder / name
        root.mkdir(exist_ok=True)
        for inner, content in files.items():
            path = root / inner
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return root

    def zip(self, files: Mapping[str, bytes], name: str = "pictures.zip") -> Path:
        path = self.folder / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for inner, content in files.items():
                archive.writestr(inner, content)
        return path

    def tar(self, files: Mapping[str, bytes], compression: str = "", name: str = "pictures.tar") -> Path:
        path = self.folder / name
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]
            for inner, content in files.items():
                info = tarfile.TarInfo(inner)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        path.write_bytes(file.getvalue())
        return path

    def pack(self, kind: str, files: Mapping[str, bytes]) -> Path:
        """Write a folder, a zip, a tar, or a tar with the compression that the kind names."""
        if kind == "zip":
            return self.zip(files)
        if kind == "folder":
            return self.tree(files)
        return self.tar(files, "" if kind == "tar" else kind)

    def read(
        self, path: Path, *, limits: DatasetLimits = DEFAULT_LIMITS, within: str | None = None, skip: bool = False
    ) -> Dataset:
        """Read the dataset, and compare every sample's file with its digest."""
        unreadable: UnreadablePolicy = "skip" if skip else "refuse"
        with open_dataset(path, scratch=self.scratch, limits=limits, within=within, unreadable=unreadable) as dataset:
            for sample in dataset.samples:
                assert hashlib.sha256(sample.path.read_bytes()).hexdigest() == sample.digest
        assert list(self.scratch.iterdir()) == []
        return dataset

    def rejection(self, path: Path, *, error: type[DatasetRejected] = DatasetRejected, **options: Any) -> str:
        """Return the message with which the dataset is rejected; no file may be left behind."""
        before = self._all_paths()
        with pytest.raises(error) as caught:
            self.read(path, **options)  # Any: of `read`
        assert self._all_paths() == before
        message = str(caught.value)
        assert "\n" not in message
        assert message.isprintable()
        return message

    def _all_paths(self) -> set[Path]:
        return set(self.folder.parent.rglob("*"))


@pytest.fixture
def builder(tmp_path: Path) -> DatasetBuilder:
    # One level down, so that a file that escapes from the folder is still found.
    folder = tmp_path / "builder"
    folder.mkdir()
    return DatasetBuilder(folder)
