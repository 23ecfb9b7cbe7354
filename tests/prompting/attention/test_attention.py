"""Both implementations of structured attention give the same result."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alacarte.prompting.attention.attention import AttentionInputs, MemoryKV, attend_concat, attend_split
from alacarte.prompting.attention.batch_layout import BatchLayout, build_layout

CPU = torch.device("cpu")
HEADS, WIDTH = 2, 8


def random_inputs(
    layout: BatchLayout, query_rows: int, tokens: int, generator: torch.Generator, size: float = 1.0
) -> AttentionInputs:
    images = layout.image_count
    q = torch.randn(images * query_rows + layout.pair_count, HEADS, WIDTH, generator=generator) * size
    k, v = (torch.randn(images * tokens + layout.pair_count, HEADS, WIDTH, generator=generator) for _ in range(2))
    return AttentionInputs(q, query_rows, k, v, tokens)


def random_memory(pairs: int, memory: int, generator: torch.Generator, is_ragged: bool) -> MemoryKV:
    keys, values = (torch.randn(pairs, HEADS, memory, WIDTH, generator=generator) for _ in range(2))
    absent = None
    if is_ragged:
        counts = torch.randint(0, memory + 1, (pairs, 1), generator=generator)
        absent = torch.where(torch.arange(memory) < counts, 0.0, -torch.inf).unsqueeze(1)
    return MemoryKV(keys, values, absent)


@settings(max_examples=60)
@given(
    pairs=st.lists(st.integers(0, 4), min_size=1, max_size=5),
    tokens=st.integers(1, 40),
    is_last=st.booleans(),
    memory=st.integers(0, 6),
    is_ragged=st.booleans(),
    size=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 2**16),
)
def test_attend_split_equals_attend_concat(
    pairs: list[int], tokens: int, is_last: bool, memory: int, is_ragged: bool, size: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    layout = build_layout([range(count) for count in pairs], CPU)
    inputs = random_inputs(layout, 1 if is_last else tokens, tokens, generator, size)
    memory_kv = random_memory(layout.pair_count, memory, generator, is_ragged)

    split, concat = (
        attend(inputs, memory_kv, layout, WIDTH**-0.5, torch.full_like(inputs.q, torch.nan))
        for attend in (attend_split, attend_concat)
    )

    torch.testing.assert_close(split, concat, rtol=1e-5, atol=1e-5)
    assert not split.isnan().any()  # every row got something


@pytest.mark.parametrize("winner", ["shared", "own"])
def test_a_dominant_score_gets_all_the_weight(winner: str) -> None:
    generator = torch.Generator().manual_seed(0)
    layout = build_layout([[0]], CPU)
    q = torch.ones(2, HEADS, WIDTH)
    large, small = torch.full((1, HEADS, WIDTH), 100.0), torch.full((1, HEADS, WIDTH), -100.0)
    keys = torch.cat([large, small] if winner == "shared" else [small, large])  # of the image, then of the pair
    values = torch.randn(2, HEADS, WIDTH, generator=generator)
    nothing = MemoryKV(torch.empty(1, HEADS, 0, WIDTH), torch.empty(1, HEADS, 0, WIDTH), None)

    given = attend_split(AttentionInputs(q, 1, keys, values, 1), nothing, layout, 1.0, torch.empty(2, HEADS, WIDTH))

    torch.testing.assert_close(given[1], values[0 if winner == "shared" else 1])
