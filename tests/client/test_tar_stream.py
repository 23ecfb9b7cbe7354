"""A folder is packed as a tar while it is sent; its size is known beforehand, and links and changes are refused."""

import io
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alacarte._client.tar_stream import list_members, open_archive, pack, tar_size
from alacarte.client import InvalidFolder

NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/."), min_size=1, max_size=60)
TREES = st.dictionaries(st.tuples(NAMES, NAMES), st.binary(max_size=3000), max_size=6)


def write_files(root: Path, files: dict[tuple[str, str], bytes]) -> dict[str, bytes]:
    for (folder, name), content in files.items():
        (root / f"d{folder}").mkdir(exist_ok=True)
        (root / f"d{folder}" / name).write_bytes(content)
    return {f"d{folder}/{name}": content for (folder, name), content in files.items()}


@given(files=TREES, chunk_bytes=st.integers(1, 5000))
def test_the_tar_has_the_files_of_the_folder(files: dict[tuple[str, str], bytes], chunk_bytes: int) -> None:
    with TemporaryDirectory() as folder:
        written = write_files(Path(folder), files)
        members = list_members(Path(folder))

        packed = b"".join(pack(members, chunk_bytes))

    assert len(packed) == tar_size(members)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        unpacked = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
        assert unpacked == written
        assert {(member.uid, member.uname, member.mtime) for member in archive} <= {(0, "", 0)}


def test_long_names_are_packed_and_hidden_files_left_out(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    (deep / "ü.png").write_bytes(b"1")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(b"secret")
    (deep / ".env").write_bytes(b"secret")

    with open_archive(tmp_path) as packed:
        content = b"".join(packed.chunks)

    assert len(content) == packed.size_bytes
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.getnames() == [f"{'d' * 200}/{'e' * 200}/ü.png"]


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "up").symlink_to(tmp_path)

    with pytest.raises(InvalidFolder, match="up is a link"):
        list_members(tmp_path / "folder")


@pytest.mark.parametrize("content", [b"shorter", b"longer than it was before"])
def test_a_file_that_changes_while_it_is_sent_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"as it was once")
    members = list_members(tmp_path)
    (tmp_path / "1.png").write_bytes(content)

    with pytest.raises(InvalidFolder, match=r"1\.png changed while it was sent"):
        list(pack(members, 2**18))
