"""Equal metadata is always the same JSON text, and invalid metadata is refused."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alacarte.prompting.errors import ArtifactInvalid
from alacarte.prompting.prompt.metadata import (
    FORMAT_VERSION,
    VARIANTS,
    PromptMetadata,
    Variant,
    metadata_from_json,
    metadata_to_json,
)

METADATA = PromptMetadata(
    backbone="0123456789abcdef" * 4,
    architecture="vit_tiny_patch16_224",
    size=224,
    labels=("cat\n", "Äpfel", "犬"),
    samples=7,
    seed=2**64 - 1,
    settings={"epochs": 80, "rate": 0.1, "augment": True, "note": "", "limit": None, "name": "é", "big": 1e300},
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def text_with(**changed: object) -> str:
    """Return the JSON text with changed fields; those changed to ... are left out."""
    document = json.loads(metadata_to_json("deep", METADATA)) | changed
    return json.dumps({name: value for name, value in document.items() if value is not ...})


@pytest.mark.parametrize("metadata", [METADATA, replace(METADATA, labels=("cat",))], ids=["three labels", "one label"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_metadata_survives_a_round_trip(variant: Variant, metadata: PromptMetadata) -> None:
    assert metadata_from_json(metadata_to_json(variant, metadata)) == (variant, metadata)


def test_settings_keep_their_types() -> None:
    _, metadata = metadata_from_json(
        metadata_to_json("deep", replace(METADATA, settings={"a": 1, "b": 1.0, "c": True}))
    )

    assert [type(value) for value in metadata.settings.values()] == [int, float, bool]


def test_the_order_of_the_settings_changes_no_byte() -> None:
    turned = replace(METADATA, settings=dict(reversed(list(METADATA.settings.items()))))

    assert metadata_to_json("deep", turned) == metadata_to_json("deep", METADATA)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"backbone": "ab"}, "SHA-256"),
        ({"backbone": "AB" * 32}, "SHA-256"),
        ({"backbone": "ab" * 32 + "\n"}, "SHA-256"),
        ({"backbone": None}, "SHA-256"),
        ({"architecture": ""}, "architecture"),
        ({"architecture": 3}, "architecture"),
        ({"size": 0}, "size"),
        ({"size": True}, "size"),
        ({"samples": 0}, "samples"),
        ({"samples": 2.0}, "samples"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"labels": ("a", "c", "b")}, "sorted"),
        ({"labels": ("a", "b", "b")}, "twice"),
        ({"labels": ()}, "one or more"),
        ({"labels": ("", "a")}, "non-empty"),
        ({"labels": ("a", 3)}, "non-empty"),
        ({"labels": ("a", "\ud800")}, "non-empty"),
        ({"labels": ("a", "b\0")}, "non-empty"),
        ({"settings": {"a": math.nan}}, "settings"),
        ({"settings": {"a": -math.inf}}, "settings"),
        ({"settings": {"a": [1]}}, "settings"),
        ({"settings": {"a": 2**64}}, "settings"),
        ({"settings": {"a": "\udfff"}}, "settings"),
        ({"settings": {3: "a"}}, "settings"),
        ({"settings": {"": "a"}}, "settings"),
    ],
)
def test_invalid_metadata_is_not_written(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(ArtifactInvalid, match=reason):
        metadata_to_json("deep", replace(METADATA, **changed))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (text_with(variant="wide"), "no variant 'wide'"),
        (text_with(variant=["deep"]), "no variant"),
        (text_with(backbone="zz" * 32), "SHA-256"),
        (text_with(architecture=None), "architecture"),
        (text_with(size="224"), "size"),
        (text_with(samples=0), "samples"),
        (text_with(seed=1.5), "seed"),
        (text_with(labels="abc"), "labels"),
        (text_with(labels=[]), "one or more"),
        (text_with(labels=["b", "a"]), "sorted"),
        (text_with(labels=["a", "\ud800"]), "labels"),
        (text_with(labels=[["a"], ["b"]]), "labels"),
        (text_with(settings=[]), "settings"),
        (text_with(settings={"a": {}}), "settings"),
        (text_with(settings={"a": math.inf}), "settings"),
        (text_with(seed=...), "metadata fields missing or unknown: ['seed']"),
        (text_with(owner="me"), "metadata fields missing or unknown: ['owner']"),
        (text_with(format=...), "format None is unknown"),
        (text_with(format=0), "format 0 is unknown"),
        (text_with(format=True), "format True is unknown"),
        (text_with(format=1.0), "format 1.0 is unknown"),
        (text_with(format="2"), "format '2' is unknown"),
        (text_with(format=FORMAT_VERSION + 1, more="new"), "newer alacarte (format 2): upgrade"),
        ("nothing", "JSON text"),
        ("", "JSON text"),
        ("3", "JSON object"),
        ("[" * 200_000, "JSON text"),
        ("9" * 5000, "JSON text"),
        ('{"format":1,"format":2}', "twice"),
    ],
)
def test_invalid_json_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ArtifactInvalid) as caught:
        metadata_from_json(text)

    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.sampled_from(sorted(json.loads(metadata_to_json("deep", METADATA)))), JSON)
@example("labels", ["a", "b", "c"])
def test_any_value_of_a_field_is_read_or_refused(name: str, value: object) -> None:
    try:
        variant, metadata = metadata_from_json(text_with(**{name: value}))
    except ArtifactInvalid:
        return
    assert metadata_from_json(metadata_to_json(variant, metadata)) == (variant, metadata)
