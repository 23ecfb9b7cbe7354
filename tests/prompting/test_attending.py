"""Both ways to attend are one: the scores of a pair side by side, or two parts mixed by their sums."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alacarte.prompting.attending import Asking, Memory, attend_at_once, attend_in_two
from alacarte.prompting.layout import lay_out

CPU = torch.device("cpu")
HEADS, WIDTH = 2, 8


def asking(pairs: int, generator: torch.Generator, size: float = 1.0) -> Asking:
    q, k, v = (torch.randn(pairs, HEADS, WIDTH, generator=generator) * size for _ in range(3))
    return Asking(q, k, v)


def remembering(pairs: int, memory: int, generator: torch.Generator, is_ragged: bool) -> Memory:
    keys, values = (torch.randn(pairs, HEADS, memory, WIDTH, generator=generator) for _ in range(2))
    absent = None
    if is_ragged:
        held = torch.randint(0, memory + 1, (pairs, 1), generator=generator)
        absent = torch.where(torch.arange(memory) < held, 0.0, -torch.inf).unsqueeze(1)
    return Memory(keys, values, torch.arange(pairs), absent)


@settings(max_examples=60, deadline=None)
@given(
    each=st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any),
    tokens=st.integers(1, 40),
    memory=st.integers(0, 6),
    is_ragged=st.booleans(),
    size=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 2**16),
)
def test_two_parts_mixed_by_their_sums_are_one_softmax(
    each: list[int], tokens: int, memory: int, is_ragged: bool, size: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    layout = lay_out([range(count) for count in each], CPU)
    ours = asking(layout.pairs, generator, size)
    keys, values = (torch.randn(len(each), HEADS, tokens, WIDTH, generator=generator) for _ in range(2))
    remembered = remembering(layout.pairs, memory, generator, is_ragged)

    in_two = attend_in_two(ours, (keys, values), remembered, layout, WIDTH**-0.5)

    at_once = attend_at_once(ours, (keys, values), remembered, layout, WIDTH**-0.5)
    torch.testing.assert_close(in_two, at_once, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("winner", ["shared", "own"])
def test_scores_that_drown_all_others_leave_no_trace_of_them(winner: str) -> None:
    generator = torch.Generator().manual_seed(0)
    layout = lay_out([[0]], CPU)
    q = torch.ones(1, HEADS, WIDTH)
    loud, quiet = torch.full((1, HEADS, WIDTH), 100.0), torch.full((1, HEADS, WIDTH), -100.0)
    own, shared = (quiet, loud) if winner == "shared" else (loud, quiet)
    values = torch.randn(1, HEADS, 1, WIDTH, generator=generator)
    ours = Asking(q, own, torch.randn(1, HEADS, WIDTH, generator=generator))
    nothing = Memory(torch.empty(1, HEADS, 0, WIDTH), torch.empty(1, HEADS, 0, WIDTH), torch.tensor([0]), None)

    found = attend_in_two(ours, (shared.unsqueeze(2), values), nothing, layout, 1.0)

    torch.testing.assert_close(found, values[:, :, 0] if winner == "shared" else ours.v)
