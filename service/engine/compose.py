"""Composition: the logits of a caller's prompts become one answer for each picture. It runs in a thread."""

import threading
from collections.abc import Sequence
from contextlib import nullcontext

import torch

from alacarte.api.literals import Composition, Weighting
from alacarte.prompting.compose import validate_composition
from alacarte.prompting.errors import CompositionInvalid
from alacarte.prompting.predict import ImagePrediction, MemberLogits, compose_predictions
from registry.access.usable_set import UsablePrompt
from registry.errors import Invalid
from service.engine.device import use_one_thread
from service.engine.job import PictureLogits

SMALL = 256  # pairs of a picture and a prompt, which are composed in some milliseconds

# The answers of a batch come all at once, and would keep each other from the interpreter; large ones keep nobody.
_composing_small = threading.Lock()


def check_composition(composition: Composition, weighting: Weighting) -> None:
    """Invalid for a composition that does not support the weighting."""
    try:
        validate_composition(composition, weighting)
    except CompositionInvalid as error:
        raise Invalid(str(error)) from error


def compose(
    prompts: Sequence[UsablePrompt], said: Sequence[PictureLogits], composition: Composition, weighting: Weighting
) -> list[ImagePrediction]:
    """The answers of pictures that were run with the same prompts. Members are in the order of the prompts' ids."""
    if not said:
        return []
    is_small = len(prompts) * len(said) <= SMALL
    with _composing_small if is_small else nullcontext(), torch.inference_mode():
        use_one_thread()  # whichever thread it is
        return _compose(prompts, said, composition, weighting)


def _compose(
    prompts: Sequence[UsablePrompt], said: Sequence[PictureLogits], composition: Composition, weighting: Weighting
) -> list[ImagePrediction]:
    named = {str(prompt.id): prompt.digest for prompt in prompts}
    voices = []
    for name, digest in sorted(named.items()):
        resident = said[0].residents[digest]
        logits = torch.stack([one.logits[digest] for one in said])  # (n, C)
        voices.append(MemberLogits(name, digest, resident.labels, resident.prototypes, logits))
    return compose_predictions(voices, torch.stack([one.embedding for one in said]), composition, weighting)
