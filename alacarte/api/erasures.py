"""Erasures, their receipts, and the verification of a receipt."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from alacarte.api.base import TIME_EXAMPLE, UUID_EXAMPLE, ResponseModel, example
from alacarte.api.literals import ErasureScope


class ErasureStepResponse(ResponseModel):
    """One step of an erasure; it is done once its effect has been verified."""

    name: str
    attempts: int
    error: str | None = Field(description="Why the step is not done yet.")
    found: dict[str, Any]  # Any: counts and texts, as recorded
    done_at: datetime | None


class ErasureResponse(ResponseModel):
    """A request to forget: serving has stopped, and the remaining steps are retried until they are verified."""

    model_config = example(
        id=UUID_EXAMPLE,
        state="running",
        scope="source",
        task_id=UUID_EXAMPLE,
        source_id=UUID_EXAMPLE,
        shard_id=None,
        sample=None,
        requested_by=UUID_EXAMPLE,
        requested_at=TIME_EXAMPLE,
        completed_at=None,
        steps=[{"name": "unserve", "attempts": 1, "error": None, "found": {"prompts": 2}, "done_at": TIME_EXAMPLE}],
        receipt=None,
    )

    id: UUID
    state: Literal["running", "complete"]
    scope: ErasureScope
    task_id: UUID
    source_id: UUID
    shard_id: UUID | None
    sample: str | None = Field(description="The digest of the picture, if one picture is forgotten.")
    requested_by: UUID | None
    requested_at: datetime
    completed_at: datetime | None
    steps: list[ErasureStepResponse]
    receipt: dict[str, Any] | None = Field(description="The signed receipt, once all steps are done.")  # Any: as signed

    @property
    def open_steps(self) -> str:
        """The steps that are not done, each with its error."""
        return ", ".join(f"{step.name} ({step.error or 'not done yet'})" for step in self.steps if step.done_at is None)


class ReceiptCheckResponse(ResponseModel):
    """One check of a receipt."""

    name: str
    ok: bool
    detail: str


class ReceiptVerificationResponse(ResponseModel):
    """Whether a receipt is genuine and everything it states still holds."""

    model_config = example(holds=True, checks=[{"name": "rows", "ok": True, "detail": "no row refers to it"}])

    holds: bool
    checks: list[ReceiptCheckResponse]
