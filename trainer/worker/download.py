"""Fetching the pictures of a lease into its room, a few at a time, each compared with its digest."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from registry.datasets.dataset import LabelledPicture
from registry.storage.store import ObjectStore
from registry.training.lease import Lease, LeasedSample

READERS = 4
LOOK_SECONDS = 0.2


def download_samples(
    store: ObjectStore, lease: Lease, folder: Path, check: Callable[[], None]
) -> tuple[LabelledPicture, ...]:
    """The lease's samples with their files in the folder; `check` is called now and then, and stops it by raising."""
    folder.mkdir()

    def fetch(sample: LeasedSample) -> None:
        store.download(sample.key, sample.digest, folder / sample.digest)

    with ThreadPoolExecutor(READERS, thread_name_prefix="fetch") as pool:
        try:
            running: set[Future[None]] = set()
            for sample in lease.samples:
                running.add(pool.submit(fetch, sample))
                while len(running) >= 2 * READERS:
                    running = _settled(running, check)
            while running:
                running = _settled(running, check)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    # The name is for messages: of a leased picture only the digest is known, by which its people find it again.
    return tuple(LabelledPicture(one.label, one.digest, one.digest, folder / one.digest) for one in lease.samples)


def _settled(running: set[Future[None]], check: Callable[[], None]) -> set[Future[None]]:
    """Those that still run after a short wait; an error of the others is raised."""
    check()
    done, left = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
    for future in done:
        future.result()
    return left
