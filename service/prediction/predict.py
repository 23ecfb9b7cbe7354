"""The prediction use case: read the caller's rights, run the engine, compose, serialise, recheck the rights."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from alacarte.api.literals import Composition, Weighting
from registry.access.rights import read_usable_prompts, recheck_usable_prompts
from registry.access.usable_set import UsablePromptSet
from registry.storage.errors import ObjectDamaged, ObjectMissing
from service.concurrency import look
from service.engine.compose import check_composition, compose
from service.engine.errors import DeadlinePassed
from service.engine.job import PictureLogits
from service.errors import NothingUsable, SetUnsettled
from service.http.request_context import RequestContext
from service.prediction.oip_codec import serialize_inference
from service.prediction.request import PredictionQuery
from service.prediction.response import PredictionResult, serialize_prediction

MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class CheckedResponse:
    """A complete response body, and whether the caller had the right to all of it once it was complete."""

    body: bytes
    is_authorized: bool


async def run_prediction(context: RequestContext, query: PredictionQuery) -> bytes:
    """The response body. Rights are read from SQL first, and again when the body is complete.

    If the caller lost a prompt in between, the prediction is computed again without it.
    """
    state = context.state
    deadline = time.monotonic() + state.settings.deadline_s
    try:
        async with asyncio.timeout(state.settings.deadline_s) as limit:
            with state.in_flight.track():
                state.replica_sync.require_enrolled()
                return await _predict_until_authorized(context, query, deadline)
    except TimeoutError:
        if limit.expired():
            raise DeadlinePassed from None
        raise


async def read_rights(context: RequestContext, task: str) -> UsablePromptSet:
    """What the caller may use of a task now."""
    state = context.state
    return await look(
        state.thread_pool, lambda: read_usable_prompts(state.registry.database, context.credential, task=task)
    )


async def _predict_until_authorized(context: RequestContext, query: PredictionQuery, deadline: float) -> bytes:
    allowed = await _read_query_rights(context, query, "first")
    for _ in range(MAX_ATTEMPTS):
        _require_prompts(allowed)
        try:
            response = await _predict_once(context, query, allowed, deadline)
        except (ObjectMissing, ObjectDamaged):  # an erasure may have deleted the object meanwhile
            now = await _read_query_rights(context, query, "again")
            if set(allowed.prompts) <= set(now.prompts):
                raise
        else:
            if response.is_authorized:
                return response.body
            now = await _read_query_rights(context, query, "again")
        allowed = now
    raise SetUnsettled


async def _predict_once(
    context: RequestContext, query: PredictionQuery, allowed: UsablePromptSet, deadline: float
) -> CheckedResponse:
    state = context.state
    check_composition(*_composition(query, allowed))
    assert allowed.caller.user_id is not None
    logits = await state.engine.run(
        allowed.task, query.pictures, allowed.prompts, user=allowed.caller.user_id, deadline=deadline
    )
    return await look(state.thread_pool, lambda: _respond(context, query, allowed, logits))


def _respond(
    context: RequestContext, query: PredictionQuery, allowed: UsablePromptSet, logits: Sequence[PictureLogits]
) -> CheckedResponse:
    """Compose, serialise, recheck the rights. Nothing is left to do afterwards but to send the body; blocks."""
    composition, weighting = _composition(query, allowed)
    answers = compose(allowed.prompts, logits, composition, weighting)
    body = _serialize(PredictionResult(tuple(answers), allowed, composition, weighting), query)
    return CheckedResponse(body, _is_still_authorized(context, query, allowed))


def _serialize(result: PredictionResult, query: PredictionQuery) -> bytes:
    if query.oip is None:
        return serialize_prediction(result, query.options)
    return serialize_inference(result, query.oip, query.options.top_k)


def _composition(query: PredictionQuery, allowed: UsablePromptSet) -> tuple[Composition, Weighting]:
    """As the query asks for it; the task's own where the query does not say."""
    options, task = query.options, allowed.task
    return options.composition or task.composition, options.weighting or task.weighting


async def _read_query_rights(
    context: RequestContext, query: PredictionQuery, which: Literal["first", "again"]
) -> UsablePromptSet:
    state, options = context.state, query.options

    def read() -> UsablePromptSet:
        return read_usable_prompts(
            state.registry.database,
            context.credential,
            task=options.task,
            release=options.release,
            sources=options.sources,
        )

    with state.metrics.rights_seconds.labels(which).time():
        return await look(state.thread_pool, read)


def _is_still_authorized(context: RequestContext, query: PredictionQuery, allowed: UsablePromptSet) -> bool:
    """Whether the caller may use every prompt of the set at this moment; blocks."""
    state, options = context.state, query.options
    with state.metrics.rights_seconds.labels("again").time():
        return recheck_usable_prompts(
            state.registry.database, context.credential, allowed, release=options.release, sources=options.sources
        )


def _require_prompts(allowed: UsablePromptSet) -> None:
    if allowed.prompts:
        return
    if allowed.sources:
        raise NothingUsable("no source that you may use has learnt anything yet: wait until one is trained")
    who = "give yourself" if allowed.caller.is_admin else "ask its owner or an admin for"
    raise NothingUsable(f"there is no source that you may use: {who} a grant")
