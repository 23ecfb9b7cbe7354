"""Predict: for each image the composed scores of its own set of prompts, all from one pass of the backbone."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from alacarte.api.literals import Composition, Weighting
from alacarte.prompting.attention.logits import PromptSlot, batch_logits
from alacarte.prompting.attention.prompt_slots import PromptPool, pool_prompts
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.compose import compose, validate_composition
from alacarte.prompting.errors import ArtifactInvalid, BackboneMismatch, CompositionInvalid
from alacarte.prompting.prompt.artifact import prompt_digest, prompt_to_bytes
from alacarte.prompting.prompt.prototypes import prototype_weights
from alacarte.prompting.prompt.tensors import TrainedPrompt

# B images, n images that share a set, D width, C labels, K prototypes, k members of a set


@dataclass(frozen=True)
class MemberScores:
    """The logits of one prompt of a set for one image, and its weight in the composition."""

    name: str
    weight: float
    labels: tuple[str, ...]
    logits: Tensor  # (C)

    @property
    def scores(self) -> Tensor:
        """The prompt's own probabilities (C)."""
        return self.logits.softmax(-1)


@dataclass(frozen=True)
class ImagePrediction:
    """Scores over the union of the set's labels, best first, and those of each member."""

    labels: tuple[str, ...]
    scores: Tensor  # (C), descending
    members: tuple[MemberScores, ...]
    set_digest: str


@dataclass(frozen=True)
class MemberLogits:
    """The logits of one member of a set for n images, with what composition needs to know of it."""

    name: str
    digest: str
    labels: tuple[str, ...]
    prototypes: Tensor  # (K, D)
    logits: Tensor  # (n, C)


class Predictor:
    """A backbone with a pool of named prompts; every image has its own set of them."""

    def __init__(self, backbone: Backbone, prompts: Mapping[str, TrainedPrompt]) -> None:
        for name, prompt in prompts.items():
            check_backbone(backbone, name, prompt)
        self._backbone = backbone
        self._prompts = dict(prompts)
        self._digests = {name: _digest(name, prompt) for name, prompt in prompts.items()}
        attending = [name for name, prompt in prompts.items() if prompt.tensors.token is not None]
        slot_of = {name: slot for slot, name in enumerate(attending)}
        self._pool: PromptPool = pool_prompts(backbone, [prompts[name].tensors for name in attending])
        self._slots = {
            name: PromptSlot(
                slot_of.get(name),
                prompt.tensors.head_weight.to(backbone.device),
                prompt.tensors.head_bias.to(backbone.device),
            )
            for name, prompt in prompts.items()
        }

    def predict(
        self,
        images: Tensor,
        sets: Sequence[Sequence[str]],
        composition: Composition = "average",
        weighting: Weighting = "none",
    ) -> list[ImagePrediction]:
        """Return a prediction for each of images (B, 3, S, S), by the prompts named in `sets[b]`, in any order."""
        named = [tuple(sorted(set(names))) for names in sets]
        self._check(images, sets, named, composition, weighting)
        if not named:
            return []
        logits, embedding = self.logits(images, named)
        groups: dict[tuple[str, ...], list[int]] = {}
        for image, names in enumerate(named):
            groups.setdefault(names, []).append(image)
        predictions: dict[int, ImagePrediction] = {}
        for names, group in groups.items():
            members = [self._member(name, torch.stack([logits[image][name] for image in group])) for name in names]
            composed = compose_predictions(members, embedding[group], composition, weighting)
            predictions.update(zip(group, composed, strict=True))
        return [predictions[image] for image in range(len(named))]

    def _check(
        self,
        images: Tensor,
        sets: Sequence[Sequence[str]],
        named: Sequence[tuple[str, ...]],
        composition: Composition,
        weighting: Weighting,
    ) -> None:
        """Refuse invalid input before anything is computed."""
        side = self._backbone.preprocessing.size
        validate_composition(composition, weighting)
        if images.shape[1:] != (3, side, side):
            raise CompositionInvalid(f"images must have the shape (B, 3, {side}, {side}), not {tuple(images.shape)}")
        if len(sets) != images.shape[0]:
            raise CompositionInvalid(f"{images.shape[0]} images came with {len(sets)} sets of prompts")
        if any(isinstance(names, str) for names in sets):
            raise CompositionInvalid("a set of prompts is a list of names, not one text: put it in a list")
        if not all(named):
            raise CompositionInvalid("there are no prompts to compose: name at least one")
        unknown = sorted({name for names in named for name in names} - self._prompts.keys())
        if unknown:
            raise CompositionInvalid(f"no prompt {unknown[0]!r} in the pool")

    def logits(self, images: Tensor, sets: Sequence[Sequence[str]]) -> tuple[list[dict[str, Tensor]], Tensor]:
        """Return for each image the logits (C) of each prompt of its set, and the embeddings (B, D), on the CPU."""
        return batch_logits(self._backbone, images, self._pool, sets, self._slots)

    def _member(self, name: str, logits: Tensor) -> MemberLogits:
        prompt = self._prompts[name]
        return MemberLogits(name, self._digests[name], prompt.metadata.labels, prompt.tensors.prototypes, logits)


def compose_predictions(
    members: Sequence[MemberLogits], embedding: Tensor, composition: Composition, weighting: Weighting
) -> list[ImagePrediction]:
    """Return the predictions of n images that share one set, from its members' logits and the embeddings (n, D)."""
    labels = [member.labels for member in members]
    weights = None
    if weighting == "prototypes":
        weights = prototype_weights(embedding, [member.prototypes for member in members])
    composed = compose([member.logits for member in members], labels, composition, weights)
    scores, order = composed.scores.sort(dim=-1, descending=True, stable=True)
    shares = torch.full((len(embedding), len(members)), 1 / len(members)) if weights is None else weights  # (n, k)
    digest = set_digest([member.digest for member in members])
    return [
        ImagePrediction(
            labels=tuple(composed.labels[index] for index in order[image].tolist()),
            scores=scores[image],
            members=tuple(
                MemberScores(member.name, share, member.labels, member.logits[image])
                for member, share in zip(members, shares[image].tolist(), strict=True)
            ),
            set_digest=digest,
        )
        for image in range(len(embedding))
    ]


def set_digest(digests: Sequence[str]) -> str:
    """Return the digest of a set of prompts from their digests, in any order."""
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()


def _digest(name: str, prompt: TrainedPrompt) -> str:
    """Return the prompt's digest; ArtifactInvalid, with the prompt's name, if it cannot be serialized."""
    try:
        return prompt_digest(prompt_to_bytes(prompt))
    except ArtifactInvalid as error:
        raise ArtifactInvalid(f"prompt {name}: {error}") from error


def check_backbone(backbone: Backbone, name: str, prompt: TrainedPrompt) -> None:
    """Refuse a prompt of another backbone, or one whose shapes do not fit this one."""
    metadata, tensors = prompt.metadata, prompt.tensors
    if metadata.backbone != backbone.identity:
        raise BackboneMismatch(
            f"prompt {name} was trained on another backbone ({metadata.architecture} at {metadata.size} px, identity "
            f"{metadata.backbone[:12]}) than this one ({backbone.architecture} at {backbone.preprocessing.size} px, "
            f"{backbone.identity[:12]})"
        )
    widths = {
        tensor.shape[-1]
        for tensor in (tensors.token, tensors.memory, tensors.head_weight, tensors.prototypes)
        if tensor is not None
    }
    layers = None if tensors.memory is None else tensors.memory.shape[0]
    expected = {"deep": backbone.depth, "deep-shared": 1}.get(tensors.variant)
    if widths != {backbone.width} or layers != expected:
        raise ArtifactInvalid(
            f"prompt {name} names this backbone, but its tensors do not fit the width of {backbone.width} "
            f"and the {backbone.depth} blocks: train it again"
        )
