"""Random interleavings of uploads, training, grants and erasures agree with a plain model."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from registry.db.database import Database
from registry.log.signing import open_signer
from registry.registry import Registry
from registry.storage.folder import FolderStore
from registry.storage.ownership import mark_store
from registry.storage.s3 import S3Store
from registry.storage.scratch import ScratchSpace
from tests.registry.interleavings.model import WEIGHTS, RandomWalk
from tests.servers.postgres import PostgresServer

STEPS = 150
RARE = {"an upload lost its source", "an upload was refused", "a publishing was refused"}


def run(registry: Registry, seed: int, steps: int = STEPS) -> Counter[str]:
    """Run a walk with this seed; return how often each step and event happened."""
    walk = RandomWalk(registry, Random(seed))
    try:
        walk.run(steps)
    except BaseException:
        print(f"seed {seed}:", *walk.history, sep="\n  ")  # noqa: T201  # pytest shows it with the failure
        raise
    return Counter(walk.history)


def test_the_registry_agrees_with_the_model_after_any_interleaving(sqlite_template: Path, tmp_path: Path) -> None:
    happened: Counter[str] = Counter()
    for seed in range(6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "registry.db").write_bytes(sqlite_template.read_bytes())
        store = FolderStore(folder / "objects")
        store.prepare()
        database = Database(f"sqlite:///{folder / 'registry.db'}")
        mark_store(database, store)
        happened += run(
            Registry(
                database,
                store,
                ScratchSpace(folder / "scratch"),
                open_signer(tmp_path / "key.pem"),
            ),
            seed,
        )

    assert happened.keys() == {step.__name__ for step in WEIGHTS} | RARE  # otherwise the walks would prove little


@pytest.mark.parametrize("seed", [100, 101])
def test_the_registry_agrees_with_the_model_on_postgresql_and_s3(
    seed: int, postgres_server: PostgresServer, postgres_template: str, s3_store: S3Store, tmp_path: Path
) -> None:
    database = Database(postgres_server.make_database(template=postgres_template))

    mark_store(database, s3_store)
    run(Registry(database, s3_store, ScratchSpace(tmp_path / "scratch"), open_signer(tmp_path / "key.pem")), seed, 100)
