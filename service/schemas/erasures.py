"""Erasures and their receipts as documents."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from registry.db.models.erasures import Scope
from service.schemas.base import MOMENT_EXAMPLE, UUID_EXAMPLE, Told


class StepTold(Told):
    """One step: done once a look has shown it."""

    name: str
    attempts: int
    error: str | None = Field(description="What it waits for.")
    found: dict[str, Any]  # Any: counts and texts, as they are kept
    done_at: datetime | None


class ErasureTold(Told):
    """A request to forget: serving has stopped, and the rest is tried until it is verified."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": UUID_EXAMPLE,
                "state": "running",
                "scope": "source",
                "task_id": UUID_EXAMPLE,
                "source_id": UUID_EXAMPLE,
                "shard_id": None,
                "sample": None,
                "requested_by": UUID_EXAMPLE,
                "requested_at": MOMENT_EXAMPLE,
                "completed_at": None,
                "steps": [
                    {
                        "name": "serving",
                        "attempts": 1,
                        "error": None,
                        "found": {"prompts": 2},
                        "done_at": MOMENT_EXAMPLE,
                    }
                ],
                "receipt": None,
            }
        }
    )

    id: UUID
    state: Literal["running", "complete"]
    scope: Scope
    task_id: UUID
    source_id: UUID
    shard_id: UUID | None
    sample: str | None
    requested_by: UUID | None
    requested_at: datetime
    completed_at: datetime | None
    steps: list[StepTold]
    receipt: dict[str, Any] | None = Field(description="The signed receipt, once all is done.")  # Any: as signed


class CheckTold(Told):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


class VerdictTold(Told):
    """Whether a receipt is genuine, and everything it says is still so."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"holds": True, "checks": [{"name": "rows", "ok": True, "detail": "no table speaks of it"}]}
        }
    )

    holds: bool
    checks: list[CheckTold]
