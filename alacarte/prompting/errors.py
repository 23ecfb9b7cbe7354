"""The errors of the method: each says what is wrong and what to do about it, in one line."""


class PromptingError(ValueError):
    """Something given to the method does not fit; the message is for a person to read."""


class BackboneUnsupported(PromptingError):
    """The named architecture is not one that structured attention works on."""


class WeightsUnavailable(PromptingError):
    """No weights for a backbone could be had from any of the places that were allowed."""


class PictureDecodeError(PromptingError):
    """Bytes that should be a picture are none, or are too large to be decoded."""


class ArtifactInvalid(PromptingError):
    """A prompt file is damaged, incomplete, or of a format that this version does not know."""


class BackboneMismatch(PromptingError):
    """A prompt was trained on another backbone than the one it should run on."""


class CompositionInvalid(PromptingError):
    """The set of prompts cannot be composed in the way that was asked for."""
