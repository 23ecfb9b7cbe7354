"""One caller's request to the registry: each piece of work is one transaction, through the door."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from sqlalchemy.orm import Session

from registry.callers import Caller
from registry.registry import Registry
from service.service import Service, service_of

T = TypeVar("T")


@dataclass(frozen=True)
class Visit:
    """Who asks, and the service that they ask."""

    service: Service
    caller: Caller
    token: str = field(repr=False)

    async def read(self, work: Callable[[Session, Caller], T]) -> T:
        """The work in a transaction that changes nothing."""

        def within() -> T:
            with self.service.registry.database.reading() as session:
                return work(session, self.caller)

        return await self.service.door.through(within)

    async def write(self, work: Callable[[Session, Caller], T]) -> T:
        """The work in a transaction that is committed before anybody hears of it."""

        def within() -> T:
            with self.service.registry.database.writing() as session:
                return work(session, self.caller)

        return await self.service.door.through(within)

    async def do(self, work: Callable[[Registry, Caller], T]) -> T:
        """Work that has transactions of its own."""
        return await self.service.door.through(lambda: work(self.service.registry, self.caller))


# For the description of the API alone: tokens are looked at before a request is routed.
_BEARER = Security(HTTPBearer(auto_error=False, description="A token that an admin has issued."))


async def _visit(request: Request, _: object = _BEARER) -> Visit:
    return Visit(service_of(request.scope), request.state.caller, request.state.token)


Visiting = Annotated[Visit, Depends(_visit)]
