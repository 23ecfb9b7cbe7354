"""Errors of the method; each message says in one line what is wrong and what to do."""


class PromptingError(ValueError):
    """An input of the method is not valid."""


class BackboneUnsupported(PromptingError):
    """The architecture cannot be used with structured attention."""


class WeightsUnavailable(PromptingError):
    """The weights of a backbone are in none of the allowed places, or do not fit it."""


class PictureDecodeError(PromptingError):
    """The bytes are not a picture, or the picture has too many pixels."""


class ArtifactInvalid(PromptingError):
    """A prompt file is damaged, incomplete, or of an unknown format."""


class BackboneMismatch(PromptingError):
    """A prompt was trained on another backbone than the one it should run on."""


class CompositionInvalid(PromptingError):
    """The prompts cannot be composed in the requested way."""
