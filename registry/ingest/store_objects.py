"""Writes the pictures of an upload to the object store, several at a time."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from registry.datasets.dataset import LabelledPicture
from registry.datasets.member_names import quote
from registry.errors import DatasetRejected
from registry.failpoints import hit_failpoint
from registry.storage.scratch import ScratchUnavailable
from registry.storage.store import ObjectStore

WRITERS = 8
CHUNK_BYTES = 1024 * 1024

ProgressCallback = Callable[[int, int], None]  # gets the number of stored pictures, and of all


def store_samples(
    store: ObjectStore,
    samples: Sequence[LabelledPicture],
    key_of: Callable[[LabelledPicture], str],
    scratch: Path,
    *,
    check: Callable[[], None],
    report: ProgressCallback | None = None,
) -> dict[str, int]:
    """Write every sample's bytes under its key, durably; return their sizes by digest.

    `check` is called from time to time, and stops the upload by raising. On failure objects are left, but no thread.
    """
    sizes: dict[str, int] = {}
    total = len(samples)

    def put(sample: LabelledPicture) -> tuple[str, int]:
        with _private_file(sample, scratch) as path:
            store.put(key_of(sample), path)
            return sample.digest, path.stat().st_size

    def collect(done: set[Future[tuple[str, int]]]) -> None:
        for future in done:
            digest, size_bytes = future.result()
            sizes[digest] = size_bytes
            if len(sizes) == (total + 1) // 2:
                hit_failpoint("upload: half the objects")
            if report is not None:
                report(len(sizes), total)
        check()

    with ThreadPoolExecutor(WRITERS, thread_name_prefix="upload") as pool:
        running: set[Future[tuple[str, int]]] = set()
        try:
            for sample in samples:
                running.add(pool.submit(put, sample))
                if len(running) >= 2 * WRITERS:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    collect(done)
            collect(wait(running).done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return sizes


@contextmanager
def _private_file(sample: LabelledPicture, scratch: Path) -> Iterator[Path]:
    """Yield a file with exactly the sample's bytes that nobody else can change."""
    if sample.path.is_relative_to(scratch):
        yield sample.path
        return
    # The file is in a user's folder, and may have changed since it was validated.
    copy = scratch / f"copy-{sample.digest}"
    try:
        if _copy(sample, copy) != sample.digest:
            raise DatasetRejected(f"{quote(sample.name)} has changed since it was validated: upload again")
        yield copy
    finally:
        copy.unlink(missing_ok=True)


def _copy(sample: LabelledPicture, copy: Path) -> str:
    """Copy the file and return the digest of the copy."""
    hashed = hashlib.sha256()
    try:
        with sample.path.open("rb") as source, copy.open("xb") as target:
            while chunk := source.read(CHUNK_BYTES):
                hashed.update(chunk)
                target.write(chunk)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ScratchUnavailable(
            f"{quote(sample.name)} cannot be copied to the scratch folder ({reason}): check the file, and make room"
        ) from error
    return hashed.hexdigest()
