"""The metadata of a prompt, and its canonical JSON text, which is validated in full when it is read."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Literal, cast, get_args

from alacarte.prompting.errors import ArtifactInvalid

FORMAT_VERSION = 1

Variant = Literal["deep", "deep-shared", "shallow", "head-only"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
SettingValue = str | int | float | bool | None

_FIELDS = {"format", "variant", "backbone", "architecture", "size", "labels", "samples", "seed", "settings"}


@dataclass(frozen=True)
class PromptMetadata:
    """What a prompt was trained on, and how."""

    backbone: str  # identity of the backbone, a SHA-256
    architecture: str  # timm's name of the backbone
    size: int  # the side of its pictures in pixels
    labels: tuple[str, ...]  # sorted; row c of the head belongs to labels[c]
    samples: int
    seed: int
    settings: Mapping[str, SettingValue]  # of the recipe


def metadata_to_json(variant: Variant, metadata: PromptMetadata) -> str:
    """Return the JSON text of the metadata: always the same text for the same metadata."""
    document = {
        "format": FORMAT_VERSION,
        "variant": variant,
        "backbone": metadata.backbone,
        "architecture": metadata.architecture,
        "size": metadata.size,
        "labels": list(metadata.labels),
        "samples": metadata.samples,
        "seed": metadata.seed,
        "settings": dict(metadata.settings),
    }
    _parse(document)
    return json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def metadata_from_json(text: str) -> tuple[Variant, PromptMetadata]:
    """Parse the variant and the metadata; ArtifactInvalid gives the reason if the text is not valid."""
    return _parse(parse_json_object(text))


def parse_json_object(text: str) -> dict[str, object]:
    """Parse a JSON object; a repeated key is refused, because two parsers could read two different values."""
    try:
        found = json.loads(text, object_pairs_hook=_unique_keys)
    except ArtifactInvalid:
        raise
    except (ValueError, RecursionError) as error:
        raise ArtifactInvalid("not a prompt: a JSON text was expected") from error
    if not isinstance(found, dict):
        raise ArtifactInvalid("not a prompt: a JSON object was expected")
    return found


def is_valid_text(value: object) -> bool:
    """Whether it is a non-empty text without NUL and surrogates, which every store and protocol can carry."""
    return isinstance(value, str) and value != "" and not re.search("[\0\ud800-\udfff]", value)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ArtifactInvalid("not a prompt: a key stands twice in one JSON object")
    return found


def _parse(document: Mapping[str, object]) -> tuple[Variant, PromptMetadata]:
    """Validate every field of the document."""
    version = document.get("format")
    if type(version) is int and version > FORMAT_VERSION:
        raise ArtifactInvalid(f"written by a newer alacarte (format {brief(version)}): upgrade alacarte to read it")
    if type(version) is not int or version != FORMAT_VERSION:
        raise ArtifactInvalid(f"the format {brief(version)} is unknown: train the prompt again")
    if document.keys() != _FIELDS:
        raise ArtifactInvalid(f"metadata fields missing or unknown: {brief(sorted(document.keys() ^ _FIELDS))}")
    variant, backbone, architecture = document["variant"], document["backbone"], document["architecture"]
    if variant not in VARIANTS:
        raise ArtifactInvalid(f"no variant {brief(variant)}: use one of {', '.join(VARIANTS)}")
    if not isinstance(backbone, str) or not re.fullmatch("[0-9a-f]{64}", backbone):
        raise ArtifactInvalid(f"the backbone's identity must be a SHA-256 in hex, not {brief(backbone)}")
    if not is_valid_text(architecture):
        raise ArtifactInvalid(f"the architecture must be a name, not {brief(architecture)}")
    metadata = PromptMetadata(
        backbone=backbone,
        architecture=cast(str, architecture),
        size=_parse_integer(document, "size", least=1),
        labels=_parse_labels(document["labels"]),
        samples=_parse_integer(document, "samples", least=1),
        seed=_parse_integer(document, "seed", least=0),
        settings=_parse_settings(document["settings"]),
    )
    return variant, metadata


def _parse_labels(labels: object) -> tuple[str, ...]:
    if not isinstance(labels, list) or not all(is_valid_text(label) for label in labels):
        raise ArtifactInvalid("the labels must be a list of non-empty texts")
    if not labels or labels != sorted(set(labels)):
        raise ArtifactInvalid("the labels must be one or more, sorted, and none of them twice")
    return tuple(labels)


def _parse_settings(settings: object) -> dict[str, SettingValue]:
    if not isinstance(settings, dict) or not all(is_valid_text(k) and _is_setting(v) for k, v in settings.items()):
        raise ArtifactInvalid("the settings must be an object of texts, finite numbers, booleans or null")
    return settings


def _parse_integer(document: Mapping[str, object], name: str, least: int) -> int:
    value = document[name]
    if type(value) is not int or not least <= value < 2**64:
        raise ArtifactInvalid(f"{name} must be an integer of at least {least}, not {brief(value)}")
    return value


def _is_setting(value: object) -> bool:
    if value is None or type(value) is bool:
        return True
    if type(value) is int:
        return abs(value) < 2**64
    if type(value) is float:
        return math.isfinite(value)
    return is_valid_text(value) or (type(value) is str and not value)
