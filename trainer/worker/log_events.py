"""What a worker tells of its work: events with fields, by ids and counts, never by names, labels or bytes."""

import logging

LOG = "trainer.worker"


def log_event(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """One event, as a log record that carries its fields by that name."""
    logging.getLogger(LOG).log(level, event, extra={"fields": fields})
