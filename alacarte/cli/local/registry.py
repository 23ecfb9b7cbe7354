"""The registry of this machine, opened by the settings for one command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

if TYPE_CHECKING:  # SQLAlchemy takes time to import, and `--help` does not need it
    from sqlalchemy.orm import Session

    from alacarte.api.base import ResponseModel
    from registry.db.paging import Page
    from registry.registry import Registry

NameOrId = str | UUID
T = TypeVar("T")
R = TypeVar("R")
M = TypeVar("M", bound="ResponseModel")


@contextmanager
def open_local_registry() -> "Iterator[Registry]":
    """Open the registry that the settings name, and close it at the end."""
    from registry.registry import open_registry
    from registry.settings import load_registry_settings

    registry = open_registry(load_registry_settings())
    try:
        yield registry
    finally:
        registry.database.close()


def all_pages(list_page: "Callable[[str | None], Page[T]]") -> Iterator[T]:
    """Return the items of all pages."""
    after = None
    while True:
        page = list_page(after)
        yield from page.items
        if page.next is None:
            return
        after = page.next


class RegistryAccess:
    """The registry of this machine, used as the operator; the base of the local backend."""

    url = None  # a client has the service's URL here

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry

    def _read(self, work: "Callable[[Session], T]") -> T:
        with self._registry.database.read_transaction() as session:
            return work(session)

    def _write(self, work: "Callable[[Session], T]") -> T:
        with self._registry.database.write_transaction() as session:
            return work(session)

    def _list(self, model: type[M], list_page: "Callable[[Session, str | None], Page[R]]") -> list[M]:
        """Return the rows of all pages as models of the API."""
        with self._registry.database.read_transaction() as session:
            return [model.model_validate(row) for row in all_pages(lambda after: list_page(session, after))]

    def _user_id(self, session: "Session", user: NameOrId) -> UUID:
        from registry.access.caller import OPERATOR
        from registry.access.users import find_user

        return find_user(session, OPERATOR, user).id

    def _source_id(self, session: "Session", source: NameOrId, task: NameOrId | None = None) -> UUID:
        from registry.access.caller import OPERATOR
        from registry.catalog.sources import find_source

        return find_source(session, OPERATOR, self._task_id(session, task), source).id

    def _task_id(self, session: "Session", task: NameOrId | None) -> UUID | None:
        from registry.catalog.tasks import find_task

        return None if task is None else find_task(session, task).id
