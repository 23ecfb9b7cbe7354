"""The errors of training: each is raised before the work that it would spoil, and says what to do."""


class TrainingError(ValueError):
    """A prompt cannot be trained from what was given; the message is for a person to read."""


class ShardRefused(TrainingError):
    """A shard has too little in it to learn from."""


class RecipeInvalid(TrainingError):
    """A setting of the recipe has a value that training cannot use."""


class LossNotFinite(TrainingError):
    """The loss left the finite numbers, so nothing after it means anything."""


class StatesNotFinite(TrainingError):
    """What a backbone makes of a picture cannot be kept in half precision."""


class ScratchFull(TrainingError):
    """There is no room for the state cache that was asked for."""
