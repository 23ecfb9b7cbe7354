"""A prompt is always the same bytes, and invalid bytes are refused."""

import hashlib
import json
import math
import os
import stat
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from alacarte.prompting.errors import ArtifactInvalid
from alacarte.prompting.prompt.artifact import (
    HEADER_LIMIT_BYTES,
    prompt_digest,
    prompt_from_bytes,
    prompt_to_bytes,
    read_prompt,
    write_prompt,
)
from alacarte.prompting.prompt.metadata import VARIANTS, PromptMetadata, Variant
from alacarte.prompting.prompt.tensors import PromptTensors, TrainedPrompt
from tests.prompting.prompt.test_metadata import JSON, METADATA

L, M, D, C, K = 3, 2, 4, 3, 5
NAMES = ("token", "memory", "head_weight", "head_bias", "prototypes")


def make_prompt(variant: Variant = "deep", **further: torch.Tensor) -> TrainedPrompt:
    random = torch.Generator().manual_seed(0)
    memory = torch.randn(1 if variant == "deep-shared" else L, M, D, generator=random)
    return TrainedPrompt(
        PromptTensors(
            variant=variant,
            token=None if variant == "head-only" else torch.randn(D, generator=random),
            memory=memory if variant in ("deep", "deep-shared") else None,
            head_weight=torch.randn(C, D, generator=random),
            head_bias=torch.randn(C, generator=random),
            prototypes=torch.randn(K, D, generator=random),
            further=further,
        ),
        METADATA,
    )


def with_tensors(**changed: Any) -> TrainedPrompt:  # Any: each field has its own type, some wrong on purpose
    prompt = make_prompt()
    return replace(prompt, tensors=replace(prompt.tensors, **changed))


def assert_same(one: TrainedPrompt, other: TrainedPrompt) -> None:
    assert one.metadata == other.metadata
    assert one.tensors.variant == other.tensors.variant
    pairs = [(getattr(one.tensors, name), getattr(other.tensors, name)) for name in NAMES]
    assert one.tensors.further.keys() == other.tensors.further.keys()
    pairs += [(one.tensors.further[name], other.tensors.further[name]) for name in one.tensors.further]
    for left, right in pairs:
        if left is None or right is None:
            assert left is right
        else:
            assert left.dtype == right.dtype
            assert torch.equal(left, right)


def split(data: bytes) -> tuple[dict[str, Any], bytes]:  # Any: JSON
    """The header and the numbers of a safetensors file."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def join(header: object, numbers: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + numbers


def with_named(**changed: torch.Tensor | None) -> bytes:
    """Return a file with changed tensors; those changed to None are left out."""
    data = prompt_to_bytes(make_prompt())
    named = {name: tensor for name, tensor in (load(data) | changed).items() if tensor is not None}
    return save(named, split(data)[0]["__metadata__"])


def refusal(data: bytes) -> str:
    with pytest.raises(ArtifactInvalid) as caught:
        prompt_from_bytes(data)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_survives_a_round_trip(variant: Variant, tmp_path: Path) -> None:
    prompt = make_prompt(variant)

    write_prompt(prompt, tmp_path / "prompt.safetensors")

    assert_same(read_prompt(tmp_path / "prompt.safetensors"), prompt)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_further_tensors_of_any_float_dtype_survive_a_round_trip(dtype: torch.dtype) -> None:
    prompt = make_prompt(gram=torch.ones(D, D, dtype=dtype), count=torch.tensor(3.0, dtype=dtype))

    assert_same(prompt_from_bytes(prompt_to_bytes(prompt)), prompt)


def test_a_file_assembled_by_hand_is_read() -> None:
    metadata = {
        "format": 1,
        "variant": "head-only",
        "backbone": "ab" * 32,
        "architecture": "a",
        "size": 1,
        "labels": ["x", "y"],
        "samples": 1,
        "seed": 0,
        "settings": {},
    }
    header = {
        "__metadata__": {"alacarte": json.dumps(metadata)},
        "head_weight": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
        "head_bias": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},
        "prototypes": {"dtype": "F32", "shape": [1, 1], "data_offsets": [16, 20]},
    }

    prompt = prompt_from_bytes(join(header, struct.pack("<5f", 1, 2, 3, 4, 5)))

    assert prompt.tensors.head_weight.tolist() == [[1.0], [2.0]]
    assert prompt.tensors.head_bias.tolist() == [3.0, 4.0]
    assert prompt.tensors.prototypes.tolist() == [[5.0]]
    assert prompt.tensors.token is None
    assert prompt.metadata == PromptMetadata("ab" * 32, "a", 1, ("x", "y"), 1, 0, {})


def test_the_same_prompt_is_always_the_same_bytes() -> None:
    prompt = make_prompt(b=torch.ones(1), a=torch.ones(1))
    turned = replace(
        prompt,
        tensors=replace(prompt.tensors, further=dict(reversed(list(prompt.tensors.further.items())))),
        metadata=replace(prompt.metadata, settings=dict(reversed(list(METADATA.settings.items())))),
    )

    written = {prompt_to_bytes(prompt) for _ in range(20)} | {prompt_to_bytes(turned)}

    assert len(written) == 1


def test_the_metadata_has_one_key_because_several_would_be_written_in_any_order() -> None:
    header, _ = split(prompt_to_bytes(make_prompt()))

    assert header["__metadata__"].keys() == {"alacarte"}


def test_reading_and_writing_again_changes_no_byte() -> None:
    data = prompt_to_bytes(make_prompt(a=torch.ones(2, dtype=torch.float16)))

    assert prompt_to_bytes(prompt_from_bytes(data)) == data


def test_different_prompts_have_different_bytes() -> None:
    prompt = make_prompt()
    data = prompt_to_bytes(prompt)

    assert prompt_to_bytes(replace(prompt, metadata=replace(prompt.metadata, seed=1))) != data
    assert prompt_to_bytes(with_tensors(token=torch.zeros(D))) != data


def test_the_digest_is_the_sha256_of_the_bytes() -> None:
    assert prompt_digest(b"abc") == hashlib.sha256(b"abc").hexdigest()


def test_trained_half_precision_and_strided_tensors_are_written_as_dense_float32() -> None:
    memory = torch.ones(M, L, D).transpose(0, 1)
    prompt = with_tensors(
        token=torch.ones(D, dtype=torch.float16, requires_grad=True), memory=memory, prototypes=memory[0]
    )

    tensors = prompt_from_bytes(prompt_to_bytes(prompt)).tensors

    assert tensors.token is not None
    assert tensors.token.dtype == torch.float32
    assert not tensors.token.requires_grad
    assert tensors.memory is not None
    assert tensors.memory.is_contiguous()
    assert torch.equal(tensors.memory, memory)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "prompt.safetensors"
    write_prompt(make_prompt("shallow"), path)
    old = path.read_bytes()

    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        write_prompt(make_prompt(), path)

    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_an_open_reader_of_the_old_file_is_not_affected(tmp_path: Path) -> None:
    path = tmp_path / "prompt.safetensors"
    write_prompt(make_prompt("shallow"), path)
    old = path.read_bytes()

    with path.open("rb") as reader:
        write_prompt(make_prompt(), path)

        assert reader.read() == old
    assert path.read_bytes() == prompt_to_bytes(make_prompt())


def test_an_invalid_prompt_writes_no_file(tmp_path: Path) -> None:
    with pytest.raises(ArtifactInvalid):
        write_prompt(with_tensors(token=None), tmp_path / "prompt.safetensors")

    assert list(tmp_path.iterdir()) == []


def test_the_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()

    write_prompt(make_prompt(), tmp_path / "prompt")

    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "prompt")}
    assert len(modes) == 1


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"token": None}, "token"),
        ({"memory": None}, "memory"),
        ({"variant": "shallow"}, "memory"),
        ({"variant": "head-only"}, "token"),
        ({"variant": "deep-shared"}, "memory has the shape"),
        ({"variant": "wide"}, "wide"),
        ({"token": torch.ones(D + 1)}, "token has the shape"),
        ({"token": torch.ones(1, D)}, "token has the shape"),
        ({"memory": torch.ones(L, M, D + 1)}, "memory has the shape"),
        ({"memory": torch.ones(L, D)}, "memory has the shape"),
        ({"memory": torch.ones(L, 65, D)}, "65 tokens a block"),  # all prompts of a pool are padded to the largest
        ({"memory": torch.ones(L, 0, D)}, "memory' cannot have the shape"),
        ({"head_weight": torch.ones(C + 1, D)}, "head_weight has the shape"),
        ({"head_weight": torch.ones(C, D + 1)}, "head_weight has the shape"),
        ({"head_bias": torch.ones(C + 1)}, "head_bias has the shape"),
        ({"head_bias": torch.ones(())}, "head_bias has the shape"),
        ({"prototypes": torch.ones(0, D)}, "prototypes' cannot have the shape"),
        ({"prototypes": torch.ones(K, D + 1)}, "shape"),
        ({"prototypes": torch.ones(D)}, "prototypes has the shape"),
        ({"prototypes": torch.ones(())}, "shape"),
        ({"token": torch.full((D,), math.nan)}, "token' holds a number that is not finite"),
        ({"head_bias": torch.full((C,), 1e300, dtype=torch.float64)}, "not finite"),
        ({"further": {"a": torch.tensor([math.inf], dtype=torch.float16)}}, "further.a' holds"),
        ({"further": {"a": torch.ones(2, dtype=torch.int64)}}, "further.a' must hold float"),
        ({"further": {"a": torch.ones([1] * 9)}}, "further.a' cannot have the shape"),
        ({"further": {"": torch.ones(1)}}, "names"),
        ({"further": {"\ud800": torch.ones(1)}}, "names"),
    ],
)
def test_invalid_tensors_are_not_written(changed: dict[str, object], reason: str) -> None:
    with pytest.raises(ArtifactInvalid, match=reason):
        prompt_to_bytes(with_tensors(**changed))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (with_named(token=None), "tensors missing or unknown in a deep prompt: ['token']"),
        (with_named(extra=torch.ones(1)), "tensors missing or unknown in a deep prompt: ['extra']"),
        (with_named(**{"further.": torch.ones(1)}), "missing or unknown"),
        (with_named(token=torch.ones(D, dtype=torch.float16)), "'token' must hold float32 numbers, not 'F16'"),
        (with_named(token=torch.ones(D, dtype=torch.int32)), "'token' must hold float32 numbers, not 'I32'"),
        (with_named(**{"further.a": torch.ones(1, dtype=torch.int8)}), "'further.a' must hold"),
        (with_named(token=torch.tensor([math.nan] * D)), "'token' holds a number that is not finite"),
        (with_named(**{"further.a": torch.tensor([-math.inf])}), "'further.a' holds a number"),
        (with_named(memory=torch.ones(L, M, D + 1)), "memory has the shape (3, 2, 5)"),
        (with_named(prototypes=torch.ones(0, D)), "'prototypes' cannot have the shape [0, 4]"),
        (prompt_to_bytes(make_prompt()) + b"\0", "file not fully covered"),
        (b"", "not a safetensors file"),
        (b"PK\x03\x04", "not a safetensors file"),
        (b"\x80\x04\x95 a pickle, as torch.save would write it", "not a safetensors file"),
        (struct.pack("<Q", HEADER_LIMIT_BYTES + 1) + b"{}", "header is over"),
        (struct.pack("<Q", 2**64 - 1), "header is over"),
        (struct.pack("<Q", 100) + b"{}", "cut short"),
        (join(b"\xff\xfe{}"), "no text"),
        (join(b"["), "JSON text"),
        (join(b"[" * 200_000), "JSON"),
        (join(b'{"a":' * 200_000), "JSON"),
        (join(b"[" + b"9" * 5000 + b"]"), "JSON"),
        (join([]), "JSON object"),
        (join({}), "metadata"),
        (join({"__metadata__": []}), "metadata"),
        (join({"__metadata__": {"alacarte": 3}}), "metadata"),
        (join({"__metadata__": {"alacarte": "{}", "other": ""}}), "metadata"),
        (join({"__metadata__": {"alacarte": "nothing"}}), "JSON text"),
        (join({"__metadata__": {"alacarte": '{"format":2}'}}), "newer alacarte (format 2): upgrade"),
        (join({"__metadata__": {"alacarte": "3"}}), "JSON object"),
        (join({"__metadata__": {"alacarte": '{"format":1,"format":2}'}}), "twice"),
        (join(b'{"a":1,"a":2}'), "twice"),
    ],
)
def test_bytes_that_are_not_a_prompt_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    assert reason in refusal(data)


@pytest.mark.parametrize(
    "entry",
    [
        3,
        {},
        {"dtype": "F32", "shape": [D]},
        {"dtype": "F32", "shape": [D], "data_offsets": [0, 4 * D], "more": 1},
        {"dtype": "F32", "shape": "4", "data_offsets": [0, 4 * D]},
        {"dtype": "F32", "shape": [True] * D, "data_offsets": [0, 4 * D]},
        {"dtype": "F32", "shape": [-D], "data_offsets": [0, 4 * D]},
        {"dtype": "F32", "shape": [2**63, 0], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [2**30] * 8, "data_offsets": [0, 4 * D]},
        {"dtype": "F32", "shape": [1] * 2000, "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [D], "data_offsets": [4 * D, 0]},
        {"dtype": "F32", "shape": [D], "data_offsets": [0, 2**60]},
        {"dtype": "F32", "shape": [D], "data_offsets": []},
        {"dtype": "F32", "shape": [D], "data_offsets": None},
        {"dtype": "F8_E8M0", "shape": [4 * D], "data_offsets": [0, 4 * D]},
        {"dtype": ["F32"], "shape": [D], "data_offsets": [0, 4 * D]},
    ],
)
@pytest.mark.parametrize("name", ["token", "further.a"])
def test_a_tensor_with_a_false_description_is_refused(name: str, entry: object) -> None:
    header, numbers = split(prompt_to_bytes(make_prompt()))

    refusal(join(header | {name: entry}, numbers))


def test_tensors_that_share_their_bytes_are_refused() -> None:
    header, numbers = split(prompt_to_bytes(make_prompt()))

    refusal(join(header | {"further.a": header["token"]}, numbers))


def test_every_truncated_file_is_refused() -> None:
    data = prompt_to_bytes(make_prompt())

    for size in range(len(data)):
        refusal(data[:size])


VALID = prompt_to_bytes(make_prompt(a=torch.ones(2, dtype=torch.float64)))


def prompt_or_refusal(data: bytes) -> None:
    try:
        prompt = prompt_from_bytes(data)
    except ArtifactInvalid:
        return
    assert_same(prompt_from_bytes(prompt_to_bytes(prompt)), prompt)


@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes_are_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(VALID)
    for offset, byte in changes:
        data[offset] = byte

    prompt_or_refusal(bytes(data))


@given(st.integers(0, len(VALID)), st.integers(0, len(VALID)), st.binary(max_size=40))
def test_removed_and_inserted_bytes_are_read_or_refused(begin: int, end: int, put: bytes) -> None:
    prompt_or_refusal(VALID[:begin] + put + VALID[end:])


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    refusal(data)


@given(
    st.sampled_from(["token", "prototypes", "further.a", "further.b"]),
    st.sampled_from(["dtype", "shape", "data_offsets"]),
    JSON | st.lists(st.integers(0, 300), max_size=3) | st.sampled_from(["F16", "F32", "F64", "I64", "F4", "C64"]),
)
def test_any_description_of_a_tensor_is_read_or_refused(name: str, part: str, value: object) -> None:
    header, numbers = split(VALID)
    header[name] = header.get(name, {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}) | {part: value}

    prompt_or_refusal(join(header, numbers))


def test_the_error_of_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.safetensors"
    path.write_bytes(b"nothing")

    with pytest.raises(ArtifactInvalid, match=r"broken\.safetensors: not a safetensors file"):
        read_prompt(path)


def test_a_file_over_the_limit_is_refused_without_being_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.safetensors"
    path.touch()
    os.truncate(path, 2**40)  # a sparse file, larger than memory
    monkeypatch.delattr(Path, "open")

    with pytest.raises(ArtifactInvalid, match=r"large\.safetensors: larger than the 268435456 bytes"):
        read_prompt(path)


def test_the_size_limit_is_a_parameter(tmp_path: Path) -> None:
    write_prompt(make_prompt(), path := tmp_path / "prompt")
    size = path.stat().st_size

    assert read_prompt(path, limit_bytes=size).metadata.samples == 7
    with pytest.raises(ArtifactInvalid, match="larger than"):
        read_prompt(path, limit_bytes=size - 1)
    with pytest.raises(ArtifactInvalid, match="larger than"):
        prompt_from_bytes(path.read_bytes(), limit_bytes=size - 1)


@pytest.mark.parametrize(("name", "reason"), [("none", "No such file"), ("", "not a file"), ("a\0b", "null")])
def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ArtifactInvalid, match=reason):
        read_prompt(tmp_path / name)


def test_a_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ArtifactInvalid, match="pipe: not a file"):
        read_prompt(tmp_path / "pipe")
