"""What other threads do for a question: pictures before the pass, composition after it."""

import threading
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from alacarte.prompting.compose import Composition, Weighting
from alacarte.prompting.errors import PictureUnreadable as NotReadable
from alacarte.prompting.predict import Answer, Voice, compose_answers
from alacarte.prompting.preprocess import Preprocessing, decode
from registry.errors import PictureUnreadable
from registry.usable_set import UsablePrompt
from service.engine.threads import compute_alone
from service.engine.work import Said

SMALL = 256  # pairs of a picture and a prompt, which are composed in some milliseconds

# The answers of a batch come all at once, and would keep each other from the interpreter; large ones keep nobody.
_composing_small = threading.Lock()


def prepare(picture: bytes, preprocessing: Preprocessing, name: str) -> Tensor:
    """The picture as (3, S, S), or PictureUnreadable, which calls it by this name."""
    try:
        return preprocessing(decode(picture))
    except NotReadable as error:
        raise PictureUnreadable(str(error).replace("the picture", name, 1)) from error


def compose_said(
    prompts: Sequence[UsablePrompt], said: Sequence[Said], composition: Composition, weighting: Weighting
) -> list[Answer]:
    """The answers of pictures that were asked with the same prompts, in the order of the prompts' ids."""
    is_small = len(prompts) * len(said) <= SMALL
    with _composing_small if is_small else nullcontext(), torch.inference_mode():
        compute_alone()  # whichever thread it is
        return _compose(prompts, said, composition, weighting)


def _compose(
    prompts: Sequence[UsablePrompt], said: Sequence[Said], composition: Composition, weighting: Weighting
) -> list[Answer]:
    named = {str(prompt.id): prompt.digest for prompt in prompts}
    voices = []
    for name, digest in sorted(named.items()):
        resident = said[0].residents[digest]
        logits = torch.stack([one.logits[digest] for one in said])  # (n, C)
        voices.append(Voice(name, digest, resident.labels, resident.prototypes, logits))
    return compose_answers(voices, torch.stack([one.embedding for one in said]), composition, weighting)
