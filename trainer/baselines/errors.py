"""The errors of comparing: what was given cannot be measured, and what to give instead."""

from trainer.errors import TrainingError


class MeasurementInvalid(TrainingError):
    """There is nothing to measure, or what was measured means nothing."""
