"""One caller's request to the registry: each piece of work is one transaction, through the door."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from sqlalchemy.orm import Session

from registry.access.caller import Caller
from registry.access.credentials import Credential, authenticate, authenticate_in_session
from registry.registry import Registry
from service.concurrency import look
from service.state import AppState, app_state

READ_SECONDS = 30.0  # some lists are long

T = TypeVar("T")


@dataclass(frozen=True)
class RequestContext:
    """Who asks, and the service that they ask.

    Who they are is read again by whatever is done for them: their body may have taken long to come.
    """

    state: AppState
    user_id: UUID  # as it was when the request began: for turns, and no right to anything
    credential: Credential

    def caller_now(self) -> Caller:
        """Who the credential is of at this moment, or Unauthenticated; blocks."""
        return authenticate(self.state.registry.database, self.credential)

    async def read(self, work: Callable[[Session, Caller], T]) -> T:
        """The work in a transaction that changes nothing."""

        def within() -> T:
            with self.state.registry.database.read_transaction() as session:
                return work(session, authenticate_in_session(session, self.credential))

        return await look(self.state.thread_pool, within, READ_SECONDS)

    async def write(self, work: Callable[[Session, Caller], T]) -> T:
        """The work in a transaction that is committed before anybody hears of it."""

        def within() -> T:
            with self.state.registry.database.write_transaction() as session:
                return work(session, authenticate_in_session(session, self.credential))

        return await self.state.thread_pool.run(within)

    async def do(self, work: Callable[[Registry, Caller], T]) -> T:
        """Work that has transactions of its own."""
        return await self.state.thread_pool.run(lambda: work(self.state.registry, self.caller_now()))


# For the description of the API alone: tokens are looked at before a request is routed.
_BEARER = Security(HTTPBearer(auto_error=False, description="A token that an admin has issued, or a JWT."))


async def _context(request: Request, _: object = _BEARER) -> RequestContext:
    return RequestContext(app_state(request.scope), request.state.caller.user_id, request.state.credential)


Context = Annotated[RequestContext, Depends(_context)]
