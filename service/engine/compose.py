"""Composition: the logits of a caller's prompts become one prediction a picture. It runs in a thread."""

import threading
from collections.abc import Sequence
from contextlib import nullcontext

import torch

from alacarte.api.literals import Composition, Weighting
from alacarte.prompting.compose import validate_composition
from alacarte.prompting.errors import CompositionInvalid
from alacarte.prompting.predict import ImagePrediction, MemberLogits, compose_predictions
from registry.access.usable_prompts import UsablePrompt
from registry.errors import Invalid
from service.engine.device import use_one_thread
from service.engine.job import PictureLogits

MAX_SMALL_PAIRS = 256  # pairs of a picture and a prompt, which take some milliseconds

# The results of a batch arrive all at once: small compositions run one by one instead of contending for the GIL.
_small_compositions = threading.Lock()


def check_composition(composition: Composition, weighting: Weighting) -> None:
    """Raise Invalid for a composition that does not support the weighting."""
    try:
        validate_composition(composition, weighting)
    except CompositionInvalid as error:
        raise Invalid(str(error)) from error


def compose(
    prompts: Sequence[UsablePrompt], results: Sequence[PictureLogits], composition: Composition, weighting: Weighting
) -> list[ImagePrediction]:
    """Return the predictions of pictures that were run with the same prompts. Members are sorted by prompt id."""
    if not results:
        return []
    is_small = len(prompts) * len(results) <= MAX_SMALL_PAIRS
    with _small_compositions if is_small else nullcontext(), torch.inference_mode():
        use_one_thread()  # in this thread, whichever it is
        members = []
        for name, digest in sorted({(str(prompt.id), prompt.digest) for prompt in prompts}):
            cached = results[0].prompts[digest]
            logits = torch.stack([result.logits[digest] for result in results])  # (n, C)
            members.append(MemberLogits(name, digest, cached.labels, cached.prototypes, logits))
        embeddings = torch.stack([result.embedding for result in results])
        return compose_predictions(members, embeddings, composition, weighting)
