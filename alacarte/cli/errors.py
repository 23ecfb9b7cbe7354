"""Mistakes on the command line: one line on stderr and an exit code, never a traceback."""

import errno
import sys
import unicodedata
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from alacarte.prompting.errors import PromptingError
from registry.errors import DomainError
from trainer.errors import TrainingError

FAILED = 1
LATER = 75  # as sysexits.h has it: not done, and worth another try
INTERRUPTED = 130  # as a shell counts it: 128 and the signal's number

# Which extra of the distribution brings a package that a command may miss.
_EXTRAS = {
    "torch": "torch",
    "torchvision": "torch",
    "timm": "torch",
    "safetensors": "torch",
    "huggingface_hub": "torch",
    "sklearn": "demo",
    "httpx": "client",
    "fastapi": "serve",
    "uvicorn": "serve",
    "httptools": "serve",
    "prometheus_client": "serve",
    "python_multipart": "serve",
    "anyio": "serve",
}
_UNSHOWN = ("Cc", "Cs", "Zl", "Zp")  # categories of characters that could drive the terminal or break a line


class CommandRefused(Exception):
    """What was asked on the command line cannot be done; the message is for a person to read."""

    code = FAILED


class NotYet(CommandRefused):
    """What was asked is not done, and may well be later: somebody is away or busy, or needs more time."""

    code = LATER


class OneLineFaults(TyperGroup):
    """A group of commands that tells what a person can mend in one line."""

    def invoke(self, ctx: Any) -> Any:  # Any: as typer has it, whose context moved between its versions
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            fail(f"this command needs {error.name}: pip install 'alacarte[{extra}]'")
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever read our answer has had enough: typer ends quietly
                raise
            fail(_told(error))
        except MemoryError as error:
            fail(f"not enough memory: {error}; use smaller pictures or a smaller batch")
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":  # torch's, which is not imported here
                raise
            fail("not enough memory on the device: use smaller pictures or a smaller batch")
        except CommandRefused as error:
            fail(str(error), error.code)
        except (PromptingError, TrainingError, DomainError) as error:
            fail(str(error))


def fail(message: str, code: int = FAILED) -> NoReturn:
    """End the command with one line for a person to read."""
    sys.stderr.write(f"error: {printable(' '.join(message.split()))}\n")
    raise typer.Exit(code)


def printable(text: str) -> str:
    """The text without characters that a terminal would obey instead of showing them."""
    return "".join("?" if unicodedata.category(character) in _UNSHOWN else character for character in text)


def _told(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{error.filename}: {reason}"
