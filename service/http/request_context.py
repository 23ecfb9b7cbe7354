"""The context of an authenticated request: application state, caller, and transactions on the registry."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from sqlalchemy.orm import Session
from starlette.requests import ClientDisconnect

from registry.access.authentication import Credential, authenticate, authenticate_in_session
from registry.access.caller import Caller
from registry.registry import Registry
from service.state import AppState, app_state

DATABASE_TIMEOUT_S = 10.0  # of authentication, and of reading the rights of a prediction
READ_TIMEOUT_S = 30.0  # of other reads: some lists are long

T = TypeVar("T")


@dataclass(frozen=True)
class RequestContext:
    """Runs the caller's work on the registry in threads, each piece authenticated again in SQL.

    The caller of the middleware is not reused, because receiving the body may have taken long.
    """

    state: AppState
    user_id: UUID  # when the request began: for fairness between users, never for rights
    credential: Credential
    media_type: str  # of the body

    async def read(self, work: Callable[[Session, Caller], T]) -> T:
        """Run the work in a read-only transaction."""
        database = self.state.registry.database
        return await self.state.thread_pool.run(
            lambda: self._in_transaction(database.read_transaction(), work), timeout_s=READ_TIMEOUT_S
        )

    async def write(self, work: Callable[[Session, Caller], T]) -> T:
        """Run the work in a transaction that is committed before this returns."""
        database = self.state.registry.database
        return await self.state.thread_pool.run(lambda: self._in_transaction(database.write_transaction(), work))

    async def run(self, work: Callable[[Registry, Caller], T]) -> T:
        """Run work that opens its own transactions."""
        return await self.state.thread_pool.run(lambda: work(self.state.registry, self.authenticate_now()))

    def authenticate_now(self) -> Caller:
        """Return the caller as SQL has it now, or raise Unauthenticated; blocks."""
        return authenticate(self.state.registry.database, self.credential)

    def _in_transaction(self, transaction: AbstractContextManager[Session], work: Callable[[Session, Caller], T]) -> T:
        with transaction as session:
            return work(session, authenticate_in_session(session, self.credential))


# Only for the OpenAPI description: the middleware has authenticated the token before the request is routed.
_BEARER = Security(HTTPBearer(auto_error=False, description="A token that an admin has issued, or a JWT."))


async def _request_context(request: Request, _: object = _BEARER) -> RequestContext:
    given = request.state
    return RequestContext(app_state(request.scope), given.caller.user_id, given.credential, given.media_type)


Context = Annotated[RequestContext, Depends(_request_context)]


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:  # Any: unused by coroutines
    """Return what the work returns; cancel it and raise ClientDisconnect if the client disconnects.

    The request body must have been read before.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
        del working, watching  # Break the traceback cycle so that the pictures are freed.


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
