"""The rights of a predict request: read before it is computed, and rechecked when its response is complete.

Both reads go to SQL and authenticate the caller there; nothing is cached.
"""

from typing import Literal

from registry.access.usable_prompts import UsablePromptSet, read_usable_prompts, recheck_usable_prompts
from service.errors import NoUsablePrompts
from service.http.request_context import DATABASE_TIMEOUT_S, RequestContext
from service.prediction.request import PredictionQuery

Phase = Literal["initial", "recheck"]  # as labelled in metrics


async def read_rights(context: RequestContext, query: PredictionQuery, phase: Phase) -> UsablePromptSet:
    """Return the prompts that the caller may use for this query now."""
    state, options = context.state, query.options

    def read() -> UsablePromptSet:
        return read_usable_prompts(
            state.registry.database,
            context.credential,
            task=options.task,
            release=options.release,
            sources=options.sources,
        )

    with state.metrics.rights_seconds.labels(phase).time():
        return await state.thread_pool.run(read, timeout_s=DATABASE_TIMEOUT_S)


def recheck_rights(context: RequestContext, query: PredictionQuery, allowed: UsablePromptSet) -> bool:
    """Return whether the caller may still use every prompt of the set; blocks."""
    state, options = context.state, query.options
    with state.metrics.rights_seconds.labels("recheck").time():
        return recheck_usable_prompts(
            state.registry.database, context.credential, allowed, release=options.release, sources=options.sources
        )


async def read_task_rights(context: RequestContext, task: str) -> UsablePromptSet:
    """Return the prompts of a task that the caller may use now."""
    state = context.state
    return await state.thread_pool.run(
        lambda: read_usable_prompts(state.registry.database, context.credential, task=task),
        timeout_s=DATABASE_TIMEOUT_S,
    )


def require_prompts(allowed: UsablePromptSet) -> None:
    """Raise NoUsablePrompts, with what the caller can do about it, if the set is empty."""
    if allowed.prompts:
        return
    if allowed.sources:
        raise NoUsablePrompts("no source that you may use has a trained prompt yet: wait for its training")
    remedy = "give yourself a grant" if allowed.caller.is_admin else "ask its owner or an admin for a grant"
    raise NoUsablePrompts(f"there is no source that you may use: {remedy}")
