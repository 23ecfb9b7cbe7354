"""Writing the pictures of an upload to the object store, several at a time and none of them twice in memory."""

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

ProgressCallback = Callable[[int, int], None]  # how many are done, of how many


def store_samples(
    store: ObjectStore,
    samples: Sequence[LabelledPicture],
    key_of: Callable[[LabelledPicture], str],
    room: Path,
    *,
    check: Callable[[], None],
    report: ProgressCallback | None = None,
) -> dict[str, int]:
    """Every sample's bytes under its key, durably; returns their sizes by digest.

    `check` is called now and then, and stops the work by raising. On failure no thread is left behind, but objects are.
    """
    sizes: dict[str, int] = {}
    total = len(samples)

    def put(sample: LabelledPicture) -> tuple[str, int]:
        with _settled(sample, room) as path:
            store.put(key_of(sample), path)
            return sample.digest, path.stat().st_size

    def settle(done: set[Future[tuple[str, int]]]) -> None:
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
                    settle(done)
            settle(wait(running).done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return sizes


@contextmanager
def _settled(sample: LabelledPicture, room: Path) -> Iterator[Path]:
    """A file that holds exactly the sample's bytes and that nobody else can change."""
    if sample.path.is_relative_to(room):
        yield sample.path
        return
    # Read in place, from somebody's folder: what was checked a while ago may be something else by now.
    copy = room / f"copy-{sample.digest}"
    try:
        if _copied(sample, copy) != sample.digest:
            raise DatasetRejected(f"{quote(sample.name)} has changed since it was checked: upload again")
        yield copy
    finally:
        copy.unlink(missing_ok=True)


def _copied(sample: LabelledPicture, copy: Path) -> str:
    """The digest of what was copied."""
    hashed = hashlib.sha256()
    try:
        with sample.path.open("rb") as source, copy.open("xb") as target:
            while chunk := source.read(CHUNK_BYTES):
                hashed.update(chunk)
                target.write(chunk)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ScratchUnavailable(
            f"{quote(sample.name)} cannot be copied ({reason}): check it, and make room"
        ) from error
    return hashed.hexdigest()
