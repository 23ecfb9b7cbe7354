"""kill -9 of workers, replicas, PostgreSQL and the S3 server under load: nothing is lost, kept, wrong or unclean."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registry.fsck.scan import examine
from registry.log import chain
from registry.storage.keys import probed_at
from tests.stress.crash.checks import Evidence, find_faults, prompts_in
from tests.stress.crash.final_state import (
    misplaced_uploads,
    read_rows,
    unproved_erasures,
    untaught_shards,
)
from tests.stress.crash.journal import Journal
from tests.stress.crash.kill import KINDS
from tests.stress.crash.run import Plan, Run, read_seed, run_crashes
from tests.stress.crash.search_bytes import bodies_in, folders_with, is_body_of, rooms_in, rows_with
from tests.stress.crash.train_copies import Copies

if TYPE_CHECKING:
    from tests.e2e.deployment import Topology

SHORT = Plan(each=1, askers=1, pace=25, rest_s=300, is_hurried=True)
LONG = Plan(each=8, askers=2, pace=6, rest_s=1200, is_hurried=False)


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """Where workers keep copies of what they have trained."""
    folder = tmp_path / "copies"
    folder.mkdir()
    return folder


@pytest.fixture
def crashing(tmp_path: Path, copies: Path, request: pytest.FixtureRequest) -> Iterator[Topology]:
    """Two replicas behind a proxy and two workers, on a PostgreSQL that syncs its log, and S3."""
    from tests.e2e.deployment import topology
    from tests.e2e.proxy import NO_NGINX, find_nginx

    if find_nginx() is None:
        pytest.skip(NO_NGINX)
    if os.environ.get("TEST_DATABASE_URL"):
        pytest.skip("a server named by TEST_DATABASE_URL is not ours to kill: unset it for this test")
    work = (sys.executable, "-m", "tests.stress.crash.worker", str(copies))
    with topology(tmp_path / "parts", work=work, durable=True) as found:
        yield found
        request.node.add_report_section("teardown", "logs", found.logs())


@pytest.mark.e2e
def test_one_kill_of_each_kind_loses_nothing_and_keeps_nothing(crashing: Topology, copies: Path) -> None:
    run = run_crashes(crashing, SHORT, seed=read_seed(1))

    require_sound(crashing, run, copies)


@pytest.mark.stress
def test_dozens_of_kills_lose_nothing_and_keep_nothing(crashing: Topology, copies: Path) -> None:
    seed = read_seed(random.SystemRandom().randrange(1_000_000))
    sys.stdout.write(f"\nSTRESS_SEED={seed}\n")

    run = run_crashes(crashing, LONG, seed)

    require_sound(crashing, run, copies)


def require_sound(topology: Topology, run: Run, folder: Path) -> None:
    """Everything that a crash run promises."""
    from tests.e2e.deployment import BUCKET

    journal, registry, copies = run.journal, topology.registry, Copies(folder)
    tell(run)
    assert run.killer.kills.keys() == set(KINDS)
    assert run.killer.ended == []

    # What people were told.
    evidence = Evidence(run.killer.outages, journal.forgets, copies.by_prompt, copies.truth)
    assert list(find_faults(journal.calls, evidence)) == []

    # What is there: every accepted upload, each shard with its prompt, every receipt.
    rows = read_rows(registry)
    bodies = bodies_in(topology.s3.address, BUCKET, "registry")
    assert list(misplaced_uploads(rows, journal)) == []
    assert list(untaught_shards(rows, copies.by_prompt, bodies)) == []
    assert list(unproved_erasures(registry, rows, journal)) == []
    usable = {str(one.id) for one in rows.prompts if str(one.source_id) in run.shelf.granted}
    assert [(call.status, prompts_in(call)) for call in run.last] == [(200, usable)] * 3

    # The doctor agrees.
    assert [one for one in examine(registry) if one.is_fault] == []
    with registry.database.reading() as session:
        assert list(chain.breaks(session)) == []

    # And what is not: nothing lies in the bucket but what has a row, and nothing of the forgotten lies anywhere. What a
    # killed replica tried the store out by is empty, and the doctor removes it when it is old.
    assert {key for key, body in bodies.items() if body or probed_at(key) is None} == rows.keys
    assert [key for key, body in bodies.items() if "/samples/" in key and not is_body_of(key, body)] == []
    served = {copies.by_prompt[str(one.id)].data for one in rows.prompts}
    # What a killed worker had trained, another has trained again, to the same bytes.
    learnt = [copy.data for copy in copies.by_prompt.values() if copy.data not in served]
    texts, digests, gone = forgotten(journal)
    assert not set(gone + learnt) & set(bodies.values())
    assert list(rows_with(registry, texts, digests)) == []
    endings = [part.terminate() for part in (*topology.replicas, *topology.workers)]  # else rooms come and go
    assert endings == [0, 0, 0, 0]
    parts = topology.replicas[0].log.parent
    assert folders_with([parts], gone + learnt, texts) == []
    assert rooms_in(parts) == []


def forgotten(journal: Journal) -> tuple[list[str], list[str], list[bytes]]:
    """The names, digests and bytes of what was forgotten."""
    texts, digests, gone = [], [], []
    for forget in journal.forgets:
        for upload in journal.uploads:
            if upload.source != forget.source:
                continue
            if forget.sample is None:
                texts.append(upload.parcel.name)
            for digest, (name, body) in upload.parcel.by_digest.items():
                if forget.sample in (None, digest):
                    texts.append(name)
                    digests.append(digest)
                    gone.append(body)
    return texts, digests, gone


def tell(run: Run) -> None:
    """What the run was, in numbers."""
    told = Counter((call.what, call.status) for call in run.journal.calls)
    lines = [
        f"kills: {dict(run.killer.kills)}",
        f"uploads: {len(run.journal.uploads)}, {sum(not one.is_sure for one in run.journal.uploads)} of them in doubt",
        f"forgotten: {dict(run.journal.counts())}",
        *(f"{what} {status}: {count}" for (what, status), count in sorted(told.items())),
    ]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
