"""Scratch space: private job folders for temporary files, each locked by the process that uses it.

The lock of a dead process is free, so that the next process on the same folder can tell which job folders to remove.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from uuid import UUID, uuid4

from registry.errors import DomainError
from registry.ids import parse_id
from registry.storage.files import create_atomically

_LOCK_SUFFIX = ".lock"


class ScratchUnavailable(DomainError):
    """The scratch folder cannot be created or written."""

    status = 503


class ScratchSpace:
    """A folder with job folders. A file in it holds its id, which write claims refer to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def id(self) -> UUID:
        """Return the id of the folder, created at the first use."""
        file = self.folder / "scratch-id"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileNotFoundError, FileExistsError):  # write claims of earlier versions refer to this id
                os.link(self.folder / "home-id", file)
            with suppress(FileExistsError):  # of several processes that start at once, one chooses the id
                create_atomically(file, [str(uuid4()).encode()])
            return UUID(file.read_text())
        except (OSError, ValueError) as error:
            raise ScratchUnavailable(
                f"the scratch folder {self.folder} cannot be used ({error}): set ALACARTE_SCRATCH to another"
            ) from error

    @contextmanager
    def job_folder(self, job_id: UUID) -> Iterator[Path]:
        """Create a private folder that is removed when the block ends, or by `sweep` if this process dies in it."""
        _ = self.id
        lock = self._create_locked(self.folder / f"{job_id}{_LOCK_SUFFIX}")
        folder = self.folder / str(job_id)
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            try:
                self._remove(folder)
            finally:
                os.close(lock)

    def sweep(self) -> set[UUID]:
        """Remove the job folders of dead processes; return the ids of those that are in use."""
        in_use = set()
        for job_id, is_abandoned in self._job_folders(fcntl.LOCK_EX):
            if not is_abandoned or not self._try_remove(job_id):
                in_use.add(job_id)
        return in_use

    def list_abandoned(self) -> list[UUID]:
        """Return the ids of the job folders that `sweep` would remove."""
        return [job_id for job_id, is_abandoned in self._job_folders(fcntl.LOCK_SH) if is_abandoned]

    def _job_folders(self, lock_kind: int) -> Iterator[tuple[UUID, bool]]:
        """Yield every job folder and whether its process is dead; if so, it stays locked until the next is yielded."""
        _ = self.id
        for path in sorted(self.folder.glob(f"*{_LOCK_SUFFIX}")):
            job_id = parse_id(path.name.removesuffix(_LOCK_SUFFIX))
            if job_id is None:  # not a job
                continue
            try:
                lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:  # the job has just ended
                continue
            try:
                fcntl.flock(lock, lock_kind | fcntl.LOCK_NB)
                if _is_same_file(lock, path):
                    yield job_id, True
            except BlockingIOError:
                yield job_id, False
            finally:
                os.close(lock)

    def _create_locked(self, path: Path) -> int:
        """Create the lock file; it is locked before it gets its name, so that no sweep ever finds it free."""
        draft = path.with_name(f"{path.name}.{uuid4()}")
        lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.link(draft, path)
        except OSError as error:
            os.close(lock)
            raise ScratchUnavailable(f"the job folder {path.stem} cannot be created ({error.strerror})") from error
        finally:
            draft.unlink()
        return lock

    def _try_remove(self, job_id: UUID) -> bool:
        """Return whether the job folder is gone; one that cannot be removed counts as in use until the next sweep."""
        try:
            self._remove(self.folder / str(job_id))
        except OSError:
            return False
        return True

    def _remove(self, folder: Path) -> None:
        if folder.exists():
            shutil.rmtree(folder)
        (self.folder / f"{folder.name}{_LOCK_SUFFIX}").unlink(missing_ok=True)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
