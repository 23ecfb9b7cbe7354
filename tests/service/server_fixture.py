"""Run the service on a real socket, in a thread of this process."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from registry.db.database import Database
from registry.log.signing import open_signer
from registry.registry import Registry
from registry.storage.folder import FolderStore
from registry.storage.ownership import mark_store
from registry.storage.scratch import ScratchSpace
from service.app import create_app
from service.server import make_server
from service.settings import ServiceSettings
from tests.servers.processes import wait_until
from tests.service.deployment import Deployment

START_SECONDS = 30.0


@contextmanager
def open_deployment(settings: ServiceSettings) -> Iterator[Deployment]:
    """Open a registry with its objects in a folder; the database has its tables already."""
    objects = FolderStore(settings.home / "objects")
    objects.prepare()
    with closing(Database(settings.database_url)) as database:
        mark_store(database, objects)
        scratch, signer = ScratchSpace(settings.scratch_folder), open_signer(settings.signing_key_file)
        deployment = Deployment(Registry(database, objects, scratch, signer))
        with deployment.client:
            yield deployment


@contextmanager
def run_deployment(settings: ServiceSettings) -> Iterator[Deployment]:
    """Serve such a registry."""
    with open_deployment(settings) as deployment, serve(settings) as deployment.url:
        yield deployment


@contextmanager
def serve(settings: ServiceSettings) -> Iterator[str]:
    """Yield the URL of a running service; drain and stop it at the end."""
    settings = settings.model_copy(update={"host": "127.0.0.1", "port": 0, "drain_s": 10})
    server = make_server(create_app(settings), settings)
    thread = threading.Thread(target=server.run, name="service")
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the start", wait_s=START_SECONDS)
        assert server.started, "the service did not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)
    assert not thread.is_alive(), "the service did not stop"
