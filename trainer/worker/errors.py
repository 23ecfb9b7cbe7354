"""What can go wrong with an attempt, in words for whoever looks at the shard, and in fewer words for the log."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from alacarte.prompting.errors import BackboneMismatch, BackboneUnsupported, PromptingError, WeightsUnavailable
from registry.errors import DatabaseUnreachable, DatabaseUnusable, DomainError
from registry.storage.errors import ObjectDamaged, ObjectMissing, StoreUnreachable
from registry.storage.scratch import ScratchUnavailable
from trainer.errors import LossNotFinite, RecipeInvalid, ScratchFull, TrainingError


class Stopped(BaseException):
    """The worker was told to stop: no error, so nothing on the way may take it for one."""


class NotEnoughMemory(TrainingError):
    """The machine or its device has too little memory for the shard."""


class FailedUnexpectedly(TrainingError):
    """An error that nobody has foreseen; its own text may carry values, and is not passed on."""


# Their messages speak of machines, settings and ids alone; those of others may carry a label.
_TELLABLE = (
    BackboneMismatch,
    BackboneUnsupported,
    DatabaseUnusable,
    DatabaseUnreachable,
    FailedUnexpectedly,
    LossNotFinite,
    NotEnoughMemory,
    ObjectDamaged,
    ObjectMissing,
    RecipeInvalid,
    ScratchFull,
    ScratchUnavailable,
    StoreUnreachable,
    WeightsUnavailable,
)


@contextmanager
def translate_errors(room: Path) -> Iterator[None]:
    """Whatever goes wrong inside leaves as an error whose message is for a person to read, and holds nothing else."""
    try:
        with _emptied():
            yield
    except DomainError:
        raise
    except (TrainingError, PromptingError) as error:
        if str(room) not in str(error):
            raise
        # Where this machine keeps its files is no business of the source's people.
        raise type(error)(str(error).replace(str(room), "the worker's scratch")) from error
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise NotEnoughMemory(
            "the worker has too little memory for this shard: use a smaller batch, smaller pictures or more shards"
        ) from error
    except Exception as error:
        raise FailedUnexpectedly(
            f"training failed unexpectedly ({type(error).__name__}): the worker's log tells where"
        ) from error


@contextmanager
def _emptied() -> Iterator[None]:
    """An error leaves with its places and without their variables: else pictures and states live as long as it does."""
    try:
        yield
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise


def error_log_fields(error: Exception) -> dict[str, str]:
    """What the log may know of an error."""
    fields = {"kind": type(error).__name__}
    if isinstance(error, _TELLABLE):
        fields["reason"] = str(error)
    unforeseen = error.__cause__ if isinstance(error, FailedUnexpectedly) else None
    if unforeseen is None and not isinstance(error, DomainError | TrainingError | PromptingError):
        unforeseen = error
    if unforeseen is not None:
        # The places, and not the message: it may carry values.
        fields["trace"] = "".join(traceback.format_tb(unforeseen.__traceback__))
    return fields
