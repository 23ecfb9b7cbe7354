"""The errors of studying: what was given cannot be shown, and why."""

from trainer.errors import TrainingError


class ReportInvalid(TrainingError):
    """A report cannot be shown or read, and the message says which part of it is at fault."""
