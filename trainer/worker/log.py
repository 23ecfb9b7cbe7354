"""The worker's log: events with fields that hold ids and counts, never names, labels or bytes."""

import logging
import traceback

from alacarte.prompting.errors import BackboneMismatch, BackboneUnsupported, PromptingError, WeightsUnavailable
from registry.errors import DatabaseUnreachable, DatabaseUnusable, DomainError
from registry.storage.scratch import ScratchUnavailable
from registry.storage.store import ObjectDamaged, ObjectMissing, StoreUnreachable
from trainer.errors import LossNotFinite, RecipeInvalid, ScratchFull, TrainingError
from trainer.worker.errors import NotEnoughMemory, UnexpectedFailure

LOGGER = "trainer.worker"

# Errors whose messages hold machines, settings and ids only; the messages of others may hold a label.
_LOGGABLE = (
    BackboneMismatch,
    BackboneUnsupported,
    DatabaseUnreachable,
    DatabaseUnusable,
    LossNotFinite,
    NotEnoughMemory,
    ObjectDamaged,
    ObjectMissing,
    RecipeInvalid,
    ScratchFull,
    ScratchUnavailable,
    StoreUnreachable,
    UnexpectedFailure,
    WeightsUnavailable,
)


def log_event(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log one event; the record carries its fields in `fields`."""
    logging.getLogger(LOGGER).log(level, event, extra={"fields": fields})


def error_fields(error: Exception) -> dict[str, str]:
    """Return the log fields of an error: its kind, the message if it is safe, and a traceback if it is unexpected."""
    fields = {"kind": type(error).__name__}
    if isinstance(error, _LOGGABLE):
        fields["reason"] = str(error)
    unexpected = error.__cause__ if isinstance(error, UnexpectedFailure) else None
    if unexpected is None and not isinstance(error, DomainError | TrainingError | PromptingError):
        unexpected = error
    if unexpected is not None:
        # Without the message, which may hold values.
        fields["trace"] = "".join(traceback.format_tb(unexpected.__traceback__))
    return fields
