"""Errors of a training job, and the translation of any error into one whose message the source's owner may read."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from alacarte.prompting.errors import PromptingError
from registry.errors import DomainError
from trainer.errors import TrainingError


class StopRequested(BaseException):
    """The worker has to stop. A BaseException, so that no handler of errors catches it."""


class NotEnoughMemory(TrainingError):
    """The machine or its device has too little memory for the shard."""


class UnexpectedFailure(TrainingError):
    """An unexpected error, without its message, which may hold values."""


@contextmanager
def translate_errors(folder: Path) -> Iterator[None]:
    """Turn every error of the block into one whose message is for people and holds no path and no unknown value."""
    try:
        with _clear_frames():
            yield
    except DomainError:
        raise
    except (TrainingError, PromptingError) as error:
        if str(folder) not in str(error):
            raise
        # The source's owner need not know the paths of this machine.
        raise type(error)(str(error).replace(str(folder), "the worker's scratch")) from error
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise NotEnoughMemory(
            "the worker has too little memory for this shard: use a smaller batch, smaller pictures or more shards"
        ) from error
    except Exception as error:
        raise UnexpectedFailure(
            f"training failed unexpectedly ({type(error).__name__}): see the worker's log"
        ) from error


@contextmanager
def _clear_frames() -> Iterator[None]:
    """Clear the local variables of an error's traceback, so that pictures and states do not live as long as it."""
    try:
        yield
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        raise
