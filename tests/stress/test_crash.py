"""SIGKILL of workers, replicas, PostgreSQL and S3 under load: nothing is lost, and nothing forgotten remains."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registry.fsck.scan import scan
from registry.log import chain
from registry.storage.keys import probe_timestamp
from tests.registry.crash.search_bytes import find_bytes
from tests.stress.crash.checks import Evidence, find_violations, prompts_in
from tests.stress.crash.final_state import (
    bodies_in,
    misplaced_uploads,
    read_rows,
    rows_with,
    unproved_erasures,
    untrained_shards,
)
from tests.stress.crash.journal import Journal
from tests.stress.crash.kill import KINDS
from tests.stress.crash.run import Plan, Run, read_seed, run_crashes
from tests.stress.crash.train_copies import Copies

if TYPE_CHECKING:
    from tests.e2e.cluster import Cluster

SHORT = Plan(each=1, predict_clients=1, pace=25, idle_s=300, short_backoff=True)
LONG = Plan(each=8, predict_clients=2, pace=6, idle_s=1200, short_backoff=False)


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """The folder in which workers keep copies of their prompts."""
    folder = tmp_path / "copies"
    folder.mkdir()
    return folder


@pytest.fixture
def crash_cluster(tmp_path: Path, copies: Path) -> Iterator[Cluster]:
    """Two replicas behind a proxy and two workers, on a PostgreSQL that syncs its log, and S3."""
    from tests.e2e.cluster import start_cluster

    if os.environ.get("TEST_DATABASE_URL"):
        pytest.skip("this test kills its database server: unset TEST_DATABASE_URL to run it")
    work = (sys.executable, "-m", "tests.stress.crash.worker", str(copies))
    with start_cluster(tmp_path / "parts", work=work, durable=True) as cluster:
        yield cluster


@pytest.mark.e2e
def test_one_kill_of_each_kind_loses_nothing_and_keeps_nothing(crash_cluster: Cluster, copies: Path) -> None:
    run = run_crashes(crash_cluster, SHORT, seed=read_seed(1))

    assert_sound(crash_cluster, run, copies)


@pytest.mark.stress
def test_dozens_of_kills_lose_nothing_and_keep_nothing(crash_cluster: Cluster, copies: Path) -> None:
    seed = read_seed(random.SystemRandom().randrange(1_000_000))
    sys.stdout.write(f"\nSTRESS_SEED={seed}\n")

    run = run_crashes(crash_cluster, LONG, seed)

    assert_sound(crash_cluster, run, copies)


def assert_sound(cluster: Cluster, run: Run, folder: Path) -> None:
    from tests.e2e.cluster import BUCKET

    journal, registry, copies = run.journal, cluster.registry, Copies(folder)
    print_summary(run)
    assert run.killer.kills.keys() == set(KINDS)
    assert run.killer.ended == []

    # Every response.
    evidence = Evidence(run.killer.outages, journal.forgets, copies.by_prompt, copies.truth)
    assert list(find_violations(journal.calls, evidence)) == []

    # What must exist: every accepted upload, each shard with its prompt, every receipt.
    rows = read_rows(registry)
    bodies = bodies_in(cluster.s3.address, BUCKET, "registry")
    assert list(misplaced_uploads(rows, journal)) == []
    assert list(untrained_shards(rows, copies.by_prompt, bodies)) == []
    assert list(unproved_erasures(registry, rows, journal)) == []
    usable = {str(one.id) for one in rows.prompts if str(one.source_id) in run.granted}
    assert [(call.status, prompts_in(call)) for call in run.last] == [(200, usable)] * 3

    # `alacarte doctor` finds nothing.
    assert [one for one in scan(registry) if one.is_fault] == []
    with registry.database.read_transaction() as session:
        assert list(chain.find_breaks(session)) == []

    # What must not exist: objects without a row, and anything forgotten. A probe of a killed replica is empty, and
    # `alacarte doctor` removes it when it is old.
    assert {key for key, body in bodies.items() if body or probe_timestamp(key) is None} == rows.keys
    samples = {key: body for key, body in bodies.items() if "/samples/" in key}
    assert [key for key, body in samples.items() if sha256(body).hexdigest() != key.rpartition("/")[2]] == []
    served = {copies.by_prompt[str(one.id)].data for one in rows.prompts}
    # Another worker has trained what a killed one had trained, to the same bytes.
    unserved = [copy.data for copy in copies.by_prompt.values() if copy.data not in served]
    texts, digests, gone = forgotten(journal)
    assert not set(gone + unserved) & set(bodies.values())
    assert list(rows_with(registry, texts, digests)) == []
    # Scratch folders change until all processes have ended.
    endings = [part.terminate() for part in (*cluster.replicas, *cluster.workers)]
    assert endings == [0, 0, 0, 0]
    parts = cluster.replicas[0].log.parent
    assert find_bytes([*gone, *unserved, *(text.encode() for text in texts)], parts) == []
    assert {file.name for file in parts.glob("*/scratch/*")} <= {"scratch-id"}


def forgotten(journal: Journal) -> tuple[list[str], list[str], list[bytes]]:
    """Return the names, digests and bytes of what was forgotten."""
    texts, digests, gone = [], [], []
    for forget in journal.forgets:
        for upload in journal.uploads:
            if upload.source != forget.source:
                continue
            if forget.sample is None:
                texts.append(upload.archive.name)
            for digest, (name, body) in upload.archive.by_digest.items():
                if forget.sample in (None, digest):
                    texts.append(name)
                    digests.append(digest)
                    gone.append(body)
    return texts, digests, gone


def print_summary(run: Run) -> None:
    statuses = Counter((call.what, call.status) for call in run.journal.calls)
    lines = [
        f"kills: {dict(run.killer.kills)}",
        f"uploads: {len(run.journal.uploads)}, {sum(not one.is_sure for one in run.journal.uploads)} of them in doubt",
        f"forgotten: {dict(run.journal.counts())}",
        *(f"{what} {status}: {count}" for (what, status), count in sorted(statuses.items())),
    ]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
