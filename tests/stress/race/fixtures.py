"""The setup of a race: prompts that each prefer their own label, pictures, users, and the true scores."""

import io
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import count

import torch
from PIL import Image

from alacarte.client import Client
from alacarte.prompting.backbone.preprocess import decode
from alacarte.prompting.predict import Predictor
from alacarte.prompting.prompt.artifact import prompt_to_bytes
from alacarte.prompting.prompt.tensors import TrainedPrompt
from tests.prompting.reference import small_prompt
from tests.service.deployment import BACKBONE, SIZE, backbone

SLOTS = 4  # sources at a time, beside the permanent one
VARIANTS = 3  # prompts per slot, used in turn, so that a re-created source gives another answer
PROMPTS = SLOTS * VARIANTS + 1
PERMANENT = PROMPTS - 1  # the prompt of the permanent source
LABELS = tuple(f"label {number:02d}" for number in range(PROMPTS))
LABEL_BIAS = 12.0  # in logits: each source of a set takes its share of the scores for its own label
PICTURES = 2
USERS = ("eva", "fay")

_numbers = count()


@dataclass(frozen=True)
class RaceSetup:
    """The task and the users of a race."""

    task: str
    users: Mapping[str, str]  # ids by name
    tokens: Mapping[str, str]


@cache
def biased_prompt(number: int) -> TrainedPrompt:
    """Return a random prompt that strongly prefers its own label."""
    prompt = small_prompt(backbone(), seed=number, labels=LABELS)
    bias = prompt.tensors.head_bias.clone()
    bias[number] += LABEL_BIAS
    return replace(prompt, tensors=replace(prompt.tensors, head_bias=bias))


@cache
def prompt_bytes(number: int) -> bytes:
    return prompt_to_bytes(biased_prompt(number))


@cache
def picture_bytes(number: int) -> bytes:
    file = io.BytesIO()
    Image.linear_gradient("L").resize((24, 24)).rotate(90 * number).convert("RGB").save(file, "PNG")
    return file.getvalue()


@cache
def picture_text(number: int) -> str:
    return b64encode(picture_bytes(number)).decode()


@cache
def true_scores(prompts: frozenset[int], picture: int) -> Mapping[str, float]:
    """Return the scores of the picture under exactly these prompts."""
    images = torch.stack([backbone().preprocessing(decode(picture_bytes(picture)))])
    named = {str(number): biased_prompt(number) for number in prompts}
    [answer] = Predictor(backbone(), named).predict(images, [list(named)])
    return dict(zip(answer.labels, answer.scores.tolist(), strict=True))


def create_race_setup(url: str, admin_token: str) -> RaceSetup:
    """Create a task and users without any grant."""
    number = next(_numbers)
    with Client(url, admin_token) as admin:
        task = str(admin.create_task(f"race {number}", backbone=BACKBONE, size=SIZE).id)
        users = {name: str(admin.create_user(f"{name} {number}").id) for name in USERS}
        return RaceSetup(task, users, {name: admin.create_token(user).text for name, user in users.items()})
