"""The metadata of a prompt as one canonical JSON text, and back: every field is there, and of the right kind."""

import json
import math
import re
from collections.abc import Mapping
from reprlib import repr as brief
from typing import cast

from alacarte.prompting.errors import ArtifactInvalid
from alacarte.prompting.prompt.tensors import VARIANTS, PromptMetadata, SettingValue, Variant

FORMAT_VERSION = 1

_FIELDS = {"format", "variant", "backbone", "architecture", "size", "labels", "samples", "seed", "settings"}


def metadata_to_json(variant: Variant, metadata: PromptMetadata) -> str:
    """The text of the metadata: always the same for the same metadata."""
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
    _facts(document)
    return json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def metadata_from_json(text: str) -> tuple[Variant, PromptMetadata]:
    """The variant and the metadata that the text holds, or ArtifactInvalid with the reason."""
    return _facts(json_object(text))


def json_object(text: str) -> dict[str, object]:
    """The JSON object in the text; no key may stand twice, so that two readers cannot read two things."""
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except ArtifactInvalid:
        raise
    except (ValueError, RecursionError) as error:
        raise ArtifactInvalid("not a prompt: a JSON text was expected") from error
    if not isinstance(found, dict):
        raise ArtifactInvalid("not a prompt: a JSON object was expected")
    return found


def is_text(value: object) -> bool:
    """Whether it is a non-empty text that every store and protocol can carry."""
    return isinstance(value, str) and value != "" and not re.search("[\0\ud800-\udfff]", value)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ArtifactInvalid("not a prompt: a key stands twice in one JSON object")
    return found


def _facts(document: Mapping[str, object]) -> tuple[Variant, PromptMetadata]:
    """The variant and the metadata of a document in which everything is as it should be."""
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
    if not is_text(architecture):
        raise ArtifactInvalid(f"the architecture must be a name, not {brief(architecture)}")
    metadata = PromptMetadata(
        backbone=backbone,
        architecture=cast(str, architecture),
        size=_integer(document, "size", least=1),
        labels=_labels(document["labels"]),
        samples=_integer(document, "samples", least=1),
        seed=_integer(document, "seed", least=0),
        settings=_settings(document["settings"]),
    )
    return variant, metadata


def _labels(labels: object) -> tuple[str, ...]:
    if not isinstance(labels, list) or not all(is_text(label) for label in labels):
        raise ArtifactInvalid("the labels must be a list of non-empty texts")
    if not labels or labels != sorted(set(labels)):
        raise ArtifactInvalid("the labels must be one or more, sorted, and none of them twice")
    return tuple(labels)


def _settings(settings: object) -> dict[str, SettingValue]:
    if not isinstance(settings, dict) or not all(is_text(k) and _is_fact(v) for k, v in settings.items()):
        raise ArtifactInvalid("the settings must be names, each with a text, a finite number, yes or no, or nothing")
    return settings


def _integer(document: Mapping[str, object], name: str, least: int) -> int:
    value = document[name]
    if type(value) is not int or not least <= value < 2**64:
        raise ArtifactInvalid(f"{name} must be an integer of at least {least}, not {brief(value)}")
    return value


def _is_fact(value: object) -> bool:
    if value is None or type(value) is bool:
        return True
    if type(value) is int:
        return abs(value) < 2**64
    if type(value) is float:
        return math.isfinite(value)
    return is_text(value) or (type(value) is str and not value)
