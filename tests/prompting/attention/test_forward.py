"""The forward pass equals the paper's attention table, and no pair depends on the others of the batch."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from alacarte.prompting.attention.attention import gather_pairs
from alacarte.prompting.attention.batch_layout import BatchLayout, build_layout
from alacarte.prompting.attention.forward import ROW_MULTIPLE, ForwardResult, build_rows, forward, padding_rows
from alacarte.prompting.attention.masked_reference import joint_forward, structured_mask
from alacarte.prompting.attention.prompt_slots import pool_prompts
from alacarte.prompting.backbone.vit import Backbone
from alacarte.prompting.prompt.tensors import TrainedPrompt
from tests.prompting.reference import (
    KINDS,
    ReferenceResult,
    attention_table,
    plain_forward,
    small_images,
    small_prompt,
    token_and_memory,
)

RAGGED = [(0, 1, 2, 3, 4), (), (3,), (2, 0), (4, 1)]  # the sets of five images; the second has no prompts
CPU = torch.device("cpu")


def same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def mixed_prompts(backbone: Backbone) -> list[TrainedPrompt]:
    """Five prompts of all variants that attend, with different amounts of memory."""
    return [
        small_prompt(backbone, "deep", seed=1),
        small_prompt(backbone, "shallow", seed=2),
        small_prompt(backbone, "deep-shared", seed=3, memory=2),
        small_prompt(backbone, "deep", seed=4, memory=9),
        small_prompt(backbone, "deep", seed=5, memory=1),
    ]


def run(
    backbone: Backbone, images: Tensor, prompts: Sequence[TrainedPrompt], sets: Sequence[Sequence[int]]
) -> ForwardResult:
    pool = pool_prompts(backbone, [prompt.tensors for prompt in prompts])
    return forward(backbone, images, pool, build_layout(sets, CPU))


def test_gathering_memory_at_once_or_block_by_block_gives_the_same_bits(
    backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, prompts = small_images(backbone, len(RAGGED)), mixed_prompts(backbone)
    at_once = run(backbone, images, prompts, RAGGED)

    monkeypatch.setattr("alacarte.prompting.attention.forward.GATHER_BYTES", 0)

    one_by_one = run(backbone, images, prompts, RAGGED)
    assert torch.equal(one_by_one.tokens, at_once.tokens)
    assert torch.equal(one_by_one.embedding, at_once.embedding)


def run_reference(
    backbone: Backbone, images: Tensor, prompts: Sequence[TrainedPrompt], sets: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor]:
    """Tokens (T, D) and embeddings (B, D), image by image."""
    finished: list[ReferenceResult] = []
    with torch.no_grad():
        for image, slots in zip(images, sets, strict=True):
            pairs = [token_and_memory(backbone, prompts[slot]) for slot in slots]
            finished.append(
                plain_forward(backbone, image, [token for token, _ in pairs], [memory for _, memory in pairs])
            )
    return torch.cat([one.tokens for one in finished]), torch.stack([one.embedding for one in finished])


@pytest.mark.parametrize("kind", KINDS)
def test_ragged_mixed_sets_equal_the_papers_attention_table(kind: str, backbone_of: Callable[[str], Backbone]) -> None:
    backbone = backbone_of(kind)
    images, prompts = small_images(backbone, len(RAGGED)), mixed_prompts(backbone)

    result = run(backbone, images, prompts, RAGGED)

    tokens, embedding = run_reference(backbone, images, prompts, RAGGED)
    same(result.tokens, tokens)
    same(result.embedding, embedding)


@pytest.mark.parametrize("kind", KINDS)
def test_the_joint_forward_equals_the_papers_attention_table(kind: str, backbone_of: Callable[[str], Backbone]) -> None:
    backbone = backbone_of(kind)
    images, prompts = small_images(backbone, 2), mixed_prompts(backbone)
    tokens, memories = zip(*(token_and_memory(backbone, prompt) for prompt in prompts), strict=True)
    mask = structured_mask(backbone.tokens, [memory.shape[1] for memory in memories])

    with torch.no_grad():
        result = joint_forward(backbone, images, torch.stack(tokens), memories, mask)

    expected, embedding = run_reference(backbone, images, prompts, [range(5)] * 2)
    same(result.tokens.flatten(0, 1), expected)
    same(result.embedding, embedding)


def test_the_structured_mask_is_the_papers_table() -> None:
    mask = structured_mask(4, [2, 0, 3])

    assert torch.equal(mask[:7], attention_table(4, [2, 0, 3]))


def test_without_the_mask_prompts_change_the_backbones_states(backbone: Backbone) -> None:
    images = small_images(backbone, 1)
    token, memory = token_and_memory(backbone, small_prompt(backbone))

    with torch.no_grad():
        naive = joint_forward(backbone, images, token[None], [memory], None)

    alone = run(backbone, images, [], [()])
    assert (naive.embedding - alone.embedding).abs().max() > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_the_embedding_is_timms_own_class_token(kind: str, backbone_of: Callable[[str], Backbone]) -> None:
    backbone = backbone_of(kind)
    images = small_images(backbone, 3)

    result = run(backbone, images, mixed_prompts(backbone), [(0,), (), (1, 3)])

    with torch.no_grad():
        rows = backbone.model.forward_features(images)
        same(result.embedding, backbone.model.fc_norm(rows[:, 0]))


def test_a_batch_without_prompts_has_no_pairs(backbone: Backbone) -> None:
    result = run(backbone, small_images(backbone, 2), mixed_prompts(backbone), [(), ()])

    assert result.tokens.shape == (0, backbone.width)
    assert result.embedding.isfinite().all()


def test_a_repeated_pair_is_computed_twice(backbone: Backbone) -> None:
    result = run(backbone, small_images(backbone, 1), mixed_prompts(backbone), [(3, 3)])

    same(result.tokens[0], result.tokens[1])


def test_double_precision_equals_the_attention_table_to_1e_10() -> None:
    from tests.prompting.reference import small_backbone

    backbone = small_backbone("layer scale", dtype=torch.float64)
    images, prompts = small_images(backbone, len(RAGGED)), mixed_prompts(backbone)

    result = run(backbone, images, prompts, RAGGED)

    tokens, embedding = run_reference(backbone, images, prompts, RAGGED)
    torch.testing.assert_close(result.tokens, tokens, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(result.embedding, embedding, rtol=1e-10, atol=1e-10)


SETS = st.lists(st.integers(0, 4), max_size=4)


@given(sets=st.lists(SETS, min_size=1, max_size=6))
def test_every_image_and_pair_is_in_exactly_one_run(sets: list[list[int]]) -> None:
    layout = build_layout(sets, torch.device("meta"))

    images = [image for run in layout.runs for image in range(run.images.start, run.images.stop)]
    pairs = [pair for run in layout.runs for pair in range(run.pairs.start, run.pairs.stop)]
    assert images == list(range(len(sets)))
    assert pairs == list(range(sum(map(len, sets))))
    assert all(
        run.pairs_per_image * (run.images.stop - run.images.start) == run.pairs.stop - run.pairs.start
        for run in layout.runs
    )


@given(sets=st.lists(SETS, min_size=1, max_size=6), own=st.integers(1, 5))
def test_the_rows_of_pairs_lie_behind_those_of_their_image(sets: list[list[int]], own: int) -> None:
    layout = build_layout(sets, CPU)
    start = torch.tensor([[[100.0 * image + row] for row in range(own)] for image in range(len(sets))])  # (B, own, 1)
    tokens = -1.0 - torch.arange(layout.pair_count).unsqueeze(1)  # (T, 1)

    rows = build_rows(start, tokens, layout)

    expected: list[float] = []
    pair = 0
    ends: list[float] = []
    for image, slots in enumerate(sets):
        pair_values = [-1.0 - number for number in range(pair, pair + len(slots))]
        expected += [*start[image, :, 0].tolist(), *pair_values]
        ends += [start[image, 0, 0].item(), *pair_values]
        pair += len(slots)
    assert rows[: len(expected), 0].tolist() == expected
    assert len(rows) == len(expected) + padding_rows(len(expected))
    assert len(rows) % ROW_MULTIPLE == 0
    assert not rows[len(expected) :].any()
    assert rows[layout.class_and_pair_rows(own), 0].tolist() == ends
    assert gather_pairs(rows.unsqueeze(1), own, layout.runs).flatten().tolist() == tokens.flatten().tolist()


@pytest.mark.parametrize(
    "sets", [RAGGED, [(0, 1), (2, 3), (4, 4), (1,), (2,)], [(1,), (), (), (2,), (3,)], [(3, 1, 2)] * 5]
)
def test_a_layout_built_for_an_accelerator_gives_the_same_tokens(
    sets: list[tuple[int, ...]], backbone: Backbone
) -> None:
    images, prompts = small_images(backbone, 5), mixed_prompts(backbone)
    pool = pool_prompts(backbone, [prompt.tensors for prompt in prompts])
    alone: BatchLayout = build_layout(sets, CPU)
    merged = dataclasses.replace(build_layout(sets, torch.device("meta")), slots=alone.slots)

    result = forward(backbone, images, pool, merged)

    same(result.tokens, forward(backbone, images, pool, alone).tokens)


@pytest.fixture(scope="module")
def single_tokens(backbone: Backbone) -> list[list[Tensor]]:
    """The tokens of each of three images with each of five prompts, computed alone."""
    prompts = mixed_prompts(backbone)
    return [
        [run(backbone, image[None], [prompt], [(0,)]).tokens[0] for prompt in prompts]
        for image in small_images(backbone, 3)
    ]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chosen=st.lists(st.integers(0, 2), min_size=1, max_size=5),
    pooled=st.permutations(range(5)).flatmap(lambda all_: st.integers(1, 5).map(lambda k: list(all_[:k]))),
    data=st.data(),
)
def test_a_pairs_token_does_not_depend_on_the_pool_the_batch_the_order_or_the_padding(
    chosen: list[int], pooled: list[int], data: st.DataObject, backbone: Backbone, single_tokens: list[list[Tensor]]
) -> None:
    sets = data.draw(
        st.lists(st.lists(st.integers(0, len(pooled) - 1), max_size=5), min_size=len(chosen), max_size=len(chosen))
    )
    prompts = mixed_prompts(backbone)

    result = run(backbone, small_images(backbone, 3)[chosen], [prompts[i] for i in pooled], sets)

    expected = [single_tokens[image][pooled[slot]] for image, slots in zip(chosen, sets, strict=True) for slot in slots]
    assert len(result.tokens) == len(expected)
    for actual, expected_token in zip(result.tokens, expected, strict=True):
        same(actual, expected_token)


def test_an_image_that_is_not_finite_changes_no_other(backbone: Backbone, single_tokens: list[list[Tensor]]) -> None:
    images = small_images(backbone, 3)
    images[1] = torch.nan

    result = run(backbone, images, mixed_prompts(backbone), [(3,), (3,), (1, 3)])

    same(result.tokens[0], single_tokens[0][3])
    same(result.tokens[2:], torch.stack([single_tokens[2][1], single_tokens[2][3]]))
    assert result.embedding[[0, 2]].isfinite().all()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 3e38])
def test_a_prompt_that_is_not_finite_changes_no_other(
    value: float, backbone: Backbone, single_tokens: list[list[Tensor]]
) -> None:
    prompts = mixed_prompts(backbone)
    spoilt = dataclasses.replace(
        prompts[0].tensors,
        token=torch.full((backbone.width,), value),
        memory=torch.full((backbone.depth, 12, backbone.width), value),
    )
    prompts[0] = dataclasses.replace(prompts[0], tensors=spoilt)

    result = run(backbone, small_images(backbone, 3), prompts, [(0, 3), (2, 0), (1,)])

    same(result.tokens[[1, 2, 4]], torch.stack([single_tokens[0][3], single_tokens[1][2], single_tokens[2][1]]))
    assert result.embedding.isfinite().all()
