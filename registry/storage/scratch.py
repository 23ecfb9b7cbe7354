"""Files that must not outlive their work: rooms in a folder, each locked by the process that uses it.

A process that dies leaves its room behind and its lock free, so that whoever comes next on the same folder
can tell the dead from the living, and wipe.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from uuid import UUID, uuid4

from registry.catalog.names import parse_id
from registry.errors import DomainError

_LOCK = ".lock"


class ScratchUnavailable(DomainError):
    """The scratch folder cannot be made or written."""

    status = 503


class ScratchSpace:
    """A folder with rooms. Its id is kept in it, so that holdings can say where their files are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def id(self) -> UUID:
        """The id of the folder, made when it is first used."""
        file = self.folder / "home-id"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            drawn = self.folder / f"home-id.{uuid4()}"
            drawn.write_text(str(uuid4()))
            try:
                os.link(drawn, file)  # of several that start at once, one names the folder
            except FileExistsError:
                pass
            finally:
                drawn.unlink()
            return UUID(file.read_text())
        except (OSError, ValueError) as error:
            raise ScratchUnavailable(
                f"{self.folder} cannot be used for scratch files ({error}): name another"
            ) from error

    @contextmanager
    def job_folder(self, name: UUID) -> Iterator[Path]:
        """A private folder that is wiped when the block ends, or by `sweep` if this process dies in it."""
        _ = self.id
        lock = self._lock_anew(self.folder / f"{name}{_LOCK}")
        room = self.folder / str(name)
        try:
            room.mkdir(mode=0o700)
            yield room
        finally:
            try:
                self._wipe(room)
            finally:
                os.close(lock)

    def sweep(self) -> set[UUID]:
        """Wipes the rooms of the dead; returns the names of those that are in use."""
        _ = self.id
        living = set()
        for path in sorted(self.folder.glob(f"*{_LOCK}")):
            name = parse_id(path.name.removesuffix(_LOCK))
            if name is None:  # not ours
                continue
            try:
                lock = os.open(path, os.O_RDWR)
            except FileNotFoundError:  # its owner has just left
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                living.add(name)
            else:
                if _is_same_file(lock, path) and not self._is_wiped(name):
                    living.add(name)
            finally:
                os.close(lock)
        return living

    def _lock_anew(self, path: Path) -> int:
        """Locked before it gets its name, so that no sweep ever sees it free."""
        draft = path.with_name(f"{path.name}.{uuid4()}")
        lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.link(draft, path)
        except OSError as error:
            os.close(lock)
            raise ScratchUnavailable(f"the room {path.stem} cannot be had ({error.strerror})") from error
        finally:
            draft.unlink()
        return lock

    def _is_wiped(self, name: UUID) -> bool:
        """Whether the room is gone; one that cannot be wiped now counts as in use, and is tried again."""
        try:
            self._wipe(self.folder / str(name))
        except OSError:
            return False
        return True

    def _wipe(self, room: Path) -> None:
        if room.exists():
            shutil.rmtree(room)
        (self.folder / f"{room.name}{_LOCK}").unlink(missing_ok=True)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
