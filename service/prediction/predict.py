"""Run a prediction: read the caller's rights, run the engine, compose, serialise, recheck the rights."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from alacarte.api.literals import Composition, Weighting
from registry.access.usable_prompts import UsablePromptSet
from registry.storage.store import ObjectDamaged, ObjectMissing
from service.engine.compose import check_composition, compose
from service.engine.errors import DeadlinePassed
from service.engine.job import PictureLogits
from service.errors import RightsChanged
from service.http.request_context import DATABASE_TIMEOUT_S, RequestContext
from service.prediction.oip_codec import serialize_inference
from service.prediction.request import PredictionQuery
from service.prediction.response import PredictionResult, serialize_prediction
from service.prediction.rights_recheck import read_rights, recheck_rights, require_prompts

MAX_ATTEMPTS = 3


async def run_prediction(context: RequestContext, query: PredictionQuery) -> bytes:
    """Return the response body, within the deadline."""
    state = context.state
    deadline_s = state.settings.deadline_s
    deadline = time.monotonic() + deadline_s
    try:
        async with asyncio.timeout(deadline_s) as limit:
            with state.in_flight.track():
                state.replica_sync.require_registered()
                return await _predict(context, query, deadline)
    except TimeoutError:
        if limit.expired():
            raise DeadlinePassed from None
        raise


async def _predict(context: RequestContext, query: PredictionQuery, deadline: float) -> bytes:
    """Predict with the prompts that the caller may use; if the recheck finds some lost, predict again without them."""
    state = context.state
    allowed = await read_rights(context, query, "initial")
    for _ in range(MAX_ATTEMPTS):
        require_prompts(allowed)
        check_composition(*_composition(query, allowed))
        assert allowed.caller.user_id is not None
        try:
            logits = await state.engine.run(
                allowed.task, query.pictures, allowed.prompts, user=allowed.caller.user_id, deadline=deadline
            )
        except (ObjectMissing, ObjectDamaged):
            # An erasure may have deleted the object meanwhile.
            remaining = await read_rights(context, query, "recheck")
            if set(allowed.prompts) <= set(remaining.prompts):
                raise
            allowed = remaining
            continue
        body = await state.thread_pool.run(
            partial(_respond, context, query, allowed, logits), timeout_s=DATABASE_TIMEOUT_S
        )
        if body is not None:
            return body
        allowed = await read_rights(context, query, "recheck")
    raise RightsChanged


def _respond(
    context: RequestContext, query: PredictionQuery, allowed: UsablePromptSet, logits: Sequence[PictureLogits]
) -> bytes | None:
    """Return the response body, or None if the caller has lost a right to it; blocks.

    The rights are rechecked last: afterwards, the body is only sent.
    """
    composition, weighting = _composition(query, allowed)
    answers = compose(allowed.prompts, logits, composition, weighting)
    body = _serialize(PredictionResult(tuple(answers), allowed, composition, weighting), query)
    return body if recheck_rights(context, query, allowed) else None


def _serialize(result: PredictionResult, query: PredictionQuery) -> bytes:
    if query.oip is None:
        return serialize_prediction(result, query.options)
    return serialize_inference(result, query.oip, query.options.top_k)


def _composition(query: PredictionQuery, allowed: UsablePromptSet) -> tuple[Composition, Weighting]:
    """Return the composition and weighting of the query, or the task's defaults."""
    options, task = query.options, allowed.task
    return options.composition or task.composition, options.weighting or task.weighting
