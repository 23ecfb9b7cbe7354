"""Many workers on many shards, killed at any moment: each shard is published once, and none is lost."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from sqlalchemy import func, select

from registry.db.models.catalog import Shard
from registry.db.models.log import LogEntry
from registry.db.models.prompts import Prompt
from registry.db.models.write_claims import WriteClaim
from registry.log import chain
from registry.registry import Registry
from registry.storage import write_claims
from tests.registry.factories import make_shard, make_source, make_task
from tests.registry.training.worker_process import KILLS
from tests.servers.processes import wait_until

ROOT = Path(__file__).parents[3]
SOURCES = 4
SHARDS = 200


def is_cleaned_up(registry: Registry) -> bool:
    write_claims.clean_up_abandoned(registry.database, registry.objects, registry.scratch)
    with registry.database.read_transaction() as session:
        return session.scalar(select(func.count()).select_from(WriteClaim)) == 0


def test_each_shard_is_published_once_whichever_worker_dies(
    registry: Registry, environment: dict[str, str], tmp_path: Path
) -> None:
    with registry.database.write_transaction() as session:
        sources = [make_source(session, make_task(session)) for _ in range(SOURCES)]
        shards = [make_shard(session, sources[n % SOURCES], samples=1) for n in range(SHARDS)]
    output = tmp_path / "outcome.json"

    command = [sys.executable, "-m", "tests.registry.training.worker_process", "7", str(output)]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)

    assert ended.returncode == 0, ended.stderr
    outcome = json.loads(output.read_text())
    assert outcome["failed"] == 0, ended.stderr
    assert outcome["killed"] > KILLS, "some must be killed at a failpoint"
    wait_until(lambda: is_cleaned_up(registry), "the end of all write claims", wait_s=60)
    with registry.database.read_transaction() as session:
        prompts = {prompt.shard_id: prompt for prompt in session.scalars(select(Prompt))}
        lines = session.scalars(select(LogEntry).where(LogEntry.action == "prompt.published")).all()
        leased = session.scalars(select(Shard.id).where(Shard.lease_id.is_not(None))).all()
        broken = list(chain.find_breaks(session))
    assert prompts.keys() == {shard.id for shard in shards}
    published = Counter((line.subject["shard"], line.subject["generation"]) for line in lines)
    assert published == Counter((str(shard.id), 1) for shard in shards)
    stored = [found.key for found in registry.objects.list_all("sources/")]
    assert sorted(stored) == sorted(prompt.key for prompt in prompts.values())
    for shard in shards:
        prompt = prompts[shard.id]
        assert registry.objects.read(prompt.key, prompt.digest) == f"{shard.id} of {shard.seed}".encode()
    assert (leased, broken) == ([], [])
    assert registry.scratch.sweep() == set()
    assert [path for path in registry.scratch.folder.iterdir() if path.is_dir()] == []
