"""A served deployment for tests that only ask, made once a module; and one of its own for tests that break things."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # torch takes seconds, and other tests of this session may never need it
    from tests.service.deployment import Deployment

MakeDeployment = Callable[..., "Deployment"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def make_deployment(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeDeployment]:
    """Serves worlds on SQLite and a folder, with the settings given."""
    from registry.db.database import Database
    from registry.log.signing import open_signer
    from registry.registry import Registry
    from registry.storage.folder import FolderStore
    from registry.storage.ownership import mark_store
    from registry.storage.scratch import ScratchSpace
    from service.settings import ServiceSettings
    from tests.service.deployment import Deployment
    from tests.service.processes import serve

    with contextlib.ExitStack() as stack:

        def make(**settings: Any) -> Deployment:  # Any: settings of the service
            home = tmp_path_factory.mktemp("home")
            (home / "registry.db").write_bytes(sqlite_template.read_bytes())
            told = ServiceSettings(home=home, database="", objects="", weights="random", **settings)
            objects = FolderStore(home / "objects")
            objects.prepare()
            database = Database(told.database_url)
            stack.callback(database.close)
            mark_store(database, objects)
            deployment = Deployment(
                Registry(database, objects, ScratchSpace(told.scratch_folder), open_signer(told.signing_key_file))
            )
            stack.callback(deployment.client.close)
            deployment.url = stack.enter_context(serve(told))
            return deployment

        yield make


@pytest.fixture(scope="module")
def deployment(make_deployment: MakeDeployment) -> Deployment:
    """A served deployment that the tests of a module share."""
    return make_deployment()
