"""A folder on its way: the tar that arrives is the folder, its size is known before, and surprises are refused."""

import io
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alacarte._client.request_bodies import opened_archive
from alacarte._client.tar_stream import members_of, size_of_tar, tar_of
from alacarte.client import FolderUnfit

NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/."), min_size=1, max_size=60)
TREES = st.dictionaries(st.tuples(NAMES, NAMES), st.binary(max_size=3000), max_size=6)


def plant(root: Path, files: dict[tuple[str, str], bytes]) -> dict[str, bytes]:
    for (folder, name), content in files.items():
        (root / f"d{folder}").mkdir(exist_ok=True)
        (root / f"d{folder}" / name).write_bytes(content)
    return {f"d{folder}/{name}": content for (folder, name), content in files.items()}


@given(files=TREES, chunk_bytes=st.integers(1, 5000))
def test_the_tar_is_the_folder_whatever_is_in_it(files: dict[tuple[str, str], bytes], chunk_bytes: int) -> None:
    with TemporaryDirectory() as folder:
        planted = plant(Path(folder), files)
        members = members_of(Path(folder))

        packed = b"".join(tar_of(members, chunk_bytes))

    assert len(packed) == size_of_tar(members)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        unpacked = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
        assert unpacked == planted
        assert {(member.uid, member.uname, member.mtime) for member in archive} <= {(0, "", 0)}


def test_a_long_name_and_hidden_files_are_no_trouble(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    (deep / "ü.png").write_bytes(b"1")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(b"secret")
    (deep / ".env").write_bytes(b"secret")

    with opened_archive(tmp_path) as packed:
        content = b"".join(packed.chunks)

    assert len(content) == packed.size_bytes
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.getnames() == [f"{'d' * 200}/{'e' * 200}/ü.png"]


def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "up").symlink_to(tmp_path)

    with pytest.raises(FolderUnfit, match="up is a link"):
        members_of(tmp_path / "folder")


@pytest.mark.parametrize("content", [b"shorter", b"longer than it was before"])
def test_a_file_that_changes_while_it_is_sent_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"as it was once")
    members = members_of(tmp_path)
    (tmp_path / "1.png").write_bytes(content)

    with pytest.raises(FolderUnfit, match=r"1\.png changed while it was sent"):
        list(tar_of(members, 2**18))
