"""Logs: one JSON object a line, an event with fields. They contain no token, no name and no picture."""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import TextIO

LOGGER = "alacarte.service"
_TOKEN = re.compile(r"(alc_[a-z2-7]{12}_)[A-Za-z0-9_-]{8,}", re.ASCII)
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{12,}(\.[A-Za-z0-9_-]*){0,2}", re.ASCII)  # also a truncated one


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the event, its fields, and the traceback of an error."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {"logger": record.name})
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return redact_secrets(json.dumps(line, default=str))


def log(level: int, event: str, *, error: Exception | None = None, **fields: object) -> None:
    """Log an event; fields that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    logging.getLogger(LOGGER).log(level, event, exc_info=error, extra={"fields": given})


def configure_logging(level: str) -> None:
    """Write all logs of this process to stderr, from this level on."""
    log_to(sys.stderr, level)


def log_to(stream: TextIO, level: str) -> None:
    """Write everything that this process logs to the stream, from this level on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library in ("alembic", "botocore", "httpcore", "httpx", "python_multipart", "urllib3"):
        logging.getLogger(library).setLevel(logging.WARNING)


def redact_secrets(text: str) -> str:
    """Return the text with every token and JWT redacted."""
    return _JWT.sub("(a JWT)", _TOKEN.sub(r"\1(...)", text))
