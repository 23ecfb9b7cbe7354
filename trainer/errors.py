"""Errors of training; each message says what is wrong and what to do."""


class TrainingError(ValueError):
    """A prompt cannot be trained or evaluated from what was given."""


class ShardRefused(TrainingError):
    """The shard has no pictures, or has one twice."""


class RecipeInvalid(TrainingError):
    """A setting of the recipe is unknown or has a value that training cannot use."""


class LossNotFinite(TrainingError):
    """The loss or a parameter is NaN or infinite."""


class StatesNotFinite(TrainingError):
    """The backbone's states of a picture do not fit half precision."""


class ScratchFull(TrainingError):
    """The scratch folder has too little space for the state cache."""


class MeasurementInvalid(TrainingError):
    """There is nothing to measure, or the scores are not finite."""
