"""Errors of commands: one line on stderr and an exit code, never a traceback."""

import errno
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from alacarte.cli.output import replace_control_characters
from alacarte.prompting.errors import PromptingError
from registry.errors import DomainError
from trainer.errors import TrainingError

EXIT_FAILURE = 1
EXIT_TEMPORARY_FAILURE = 75  # EX_TEMPFAIL of sysexits.h: not done, worth a retry
RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})  # of HTTP, which errors of the registry have too
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it

# The extra that installs each optional package.
_EXTRAS = {
    "torch": "torch",
    "torchvision": "torch",
    "timm": "torch",
    "safetensors": "torch",
    "huggingface_hub": "torch",
    "sklearn": "demo",
    "jinja2": "study",
    "matplotlib": "study",
    "httpx": "client",
    "fastapi": "serve",
    "uvicorn": "serve",
    "httptools": "serve",
    "prometheus_client": "serve",
    "python_multipart": "serve",
    "anyio": "serve",
}


class CommandError(Exception):
    """A command cannot do what was asked; the message is shown to the user."""

    exit_code = EXIT_FAILURE


class TemporaryFailure(CommandError):
    """A command has not succeeded yet, and a retry may: something is unreachable, busy or unfinished."""

    exit_code = EXIT_TEMPORARY_FAILURE


class ErrorReportingGroup(TyperGroup):
    """A command group that prints expected errors as one line."""

    def invoke(self, ctx: Any) -> Any:  # Any: the context's type differs between versions of typer
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            fail("interrupted", EXIT_INTERRUPTED)
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            fail(f"this command needs {error.name}: pip install 'alacarte[{extra}]'")
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader closed the pipe: typer exits silently
                raise
            fail(_describe_os_error(error))
        except MemoryError as error:
            fail(f"not enough memory: {error}; use smaller pictures or a smaller batch")
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":  # torch's; torch is not imported here
                raise
            fail("not enough memory on the device: use smaller pictures or a smaller batch")
        except CommandError as error:
            fail(str(error), error.exit_code)
        except DomainError as error:
            fail(str(error), EXIT_TEMPORARY_FAILURE if error.status in RETRYABLE_STATUSES else EXIT_FAILURE)
        except (PromptingError, TrainingError) as error:
            fail(str(error))


def fail(message: str, exit_code: int = EXIT_FAILURE) -> NoReturn:
    """Print the message as one line and exit."""
    sys.stderr.write(f"error: {replace_control_characters(' '.join(message.split()))}\n")
    raise typer.Exit(exit_code)


def _describe_os_error(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{error.filename}: {reason}"
