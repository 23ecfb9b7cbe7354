"""Composition: examples computed by hand, and properties."""

import math
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from alacarte.api.literals import Composition
from alacarte.prompting.compose import compose
from alacarte.prompting.errors import CompositionInvalid
from alacarte.prompting.prompt.prototypes import prototype_weights
from tests.prompting.reference import softmax

COMPOSITIONS: tuple[Composition, ...] = get_args(Composition)
WEIGHTABLE: tuple[Composition, ...] = ("average", "concat")

Members = tuple[list[Tensor], list[tuple[str, ...]]]


@st.composite
def members(draw: st.DrawFn) -> Members:
    """Logits and labels of one to five prompts, whose labels overlap at random, on one to four images."""
    images = draw(st.integers(1, 4))
    labels = draw(
        st.lists(st.lists(st.sampled_from("abcdefg"), min_size=1, unique=True).map(tuple), min_size=1, max_size=5)
    )
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    return [4 * torch.randn(images, len(own), generator=random) for own in labels], labels


def weights_for(logits: list[Tensor]) -> Tensor:
    """Some weights (B, k), different for every image and member."""
    return torch.randn(len(logits[0]), len(logits), generator=torch.Generator().manual_seed(1)).softmax(1)


@pytest.mark.parametrize(
    ("how", "logits", "weights", "expected"),
    [
        ("average", [[0.0, math.log(3)], [math.log(4), 0.0]], None, [0.125, (0.75 + 0.8) / 2, 0.1]),
        ("average", [[2, 4], [6, 8]], [0.25, 0.75], softmax(0.25 * 2 / 2, (0.25 * 4 + 0.75 * 6) / 2, 0.75 * 8 / 2)),
        ("concat", [[1, 2], [4, 3]], None, softmax(1, (2 + 4) / 2, 3)),
        ("concat", [[1, 2], [4, 3]], [0.25, 0.75], softmax(0.25, (0.5 + 3.0) / 2, 2.25)),
        ("concat", [[1, 2], [4, 3]], [1.0, 0.0], softmax(1.0, 2.0 / 2, 0.0)),
    ],
    ids=[
        "mean probability, with 0 for an unknown label",
        "mean of weighted logits",
        "one softmax, with the mean logit of a shared label",
        "weighted logits",
        "a weight of 0",
    ],
)
def test_average_and_concat_equal_the_papers_formula(
    how: Composition, logits: list[list[float]], weights: list[float] | None, expected: list[float]
) -> None:
    members = [torch.tensor([own], dtype=torch.float32) for own in logits]

    composed = compose(members, [("a", "b"), ("b", "c")], how, None if weights is None else torch.tensor([weights]))

    assert composed.labels == ("a", "b", "c")
    torch.testing.assert_close(composed.scores, torch.tensor([expected]))


def test_a_vote_is_won_by_the_majority_whatever_the_probabilities() -> None:
    barely, surely = torch.tensor([[0.1, 0.0]]), torch.tensor([[-50.0, 50.0]])

    composed = compose([barely, barely, surely], [("a", "b")] * 3, "vote")

    mean = (2 * softmax(0.1, 0.0)[0] + 0.0) / 3
    torch.testing.assert_close(composed.scores[0, 0].item(), (2 + mean) / 4)
    assert composed.scores.argmax(1).tolist() == [0]


@pytest.mark.parametrize(("first", "second", "winner"), [(3.0, 1.0, "a"), (1.0, 3.0, "b")])
def test_a_tie_of_votes_goes_to_the_higher_mean_probability(first: float, second: float, winner: str) -> None:
    composed = compose([torch.tensor([[first, 0.0]]), torch.tensor([[0.0, second]])], [("a", "b"), ("a", "b")], "vote")

    assert composed.labels[int(composed.scores.argmax())] == winner


def test_votes_are_counted_by_each_prompts_own_labels() -> None:
    composed = compose(
        [torch.tensor([[0.0, 9.0]]), torch.tensor([[9.0, 0.0]]), torch.tensor([[0.0, 9.0]])],
        [("a", "c"), ("b", "c"), ("a", "b")],
        "vote",
    )

    assert (composed.scores * 4).floor().tolist() == [[0.0, 2.0, 1.0]]


@pytest.mark.parametrize(("how", "scores"), [("average", [0.625, 0.375]), ("concat", [0.25, 0.75])])
def test_a_prompt_of_one_label_gives_it_probability_1_in_average_and_its_logit_in_concat(
    how: Composition, scores: list[float]
) -> None:
    other = torch.tensor([[1.0, 3.0]]).log()

    answer = compose([torch.zeros(1, 1), other], [("a",), ("a", "b")], how)

    assert answer.labels == ("a", "b")
    torch.testing.assert_close(answer.scores, torch.tensor([scores]))


@settings(max_examples=60)
@given(members(), st.sampled_from(COMPOSITIONS), st.booleans())
def test_scores_are_a_distribution_over_the_sorted_union(drawn: Members, how: Composition, weighted: bool) -> None:
    logits, labels = drawn
    weights = weights_for(logits) if weighted and how in WEIGHTABLE else None

    composed = compose(logits, labels, how, weights)

    assert composed.labels == tuple(sorted({label for own in labels for label in own}))
    assert composed.scores.shape == (len(logits[0]), len(composed.labels))
    assert bool((composed.scores >= 0).all())
    torch.testing.assert_close(composed.scores.sum(1), torch.ones(len(logits[0])))


@settings(max_examples=60)
@given(members(), st.sampled_from(COMPOSITIONS), st.booleans(), st.data())
def test_the_order_of_the_members_changes_nothing(
    drawn: Members, how: Composition, weighted: bool, data: st.DataObject
) -> None:
    logits, labels = drawn
    order = data.draw(st.permutations(range(len(logits))))
    weights = weights_for(logits) if weighted and how in WEIGHTABLE else None

    straight = compose(logits, labels, how, weights)
    permuted = compose(
        [logits[i] for i in order],
        [labels[i] for i in order],
        how,
        None if weights is None else weights[:, list(order)],
    )

    assert permuted.labels == straight.labels
    torch.testing.assert_close(permuted.scores, straight.scores)


@settings(max_examples=60)
@given(members(), st.sampled_from(COMPOSITIONS))
def test_the_order_of_a_members_labels_changes_nothing(drawn: Members, how: Composition) -> None:
    logits, labels = drawn

    straight = compose(logits, labels, how)
    turned = compose([member.flip(1) for member in logits], [own[::-1] for own in labels], how)

    torch.testing.assert_close(turned.scores, straight.scores)


@settings(max_examples=60)
@given(members(), st.sampled_from(COMPOSITIONS), st.booleans())
def test_an_image_is_composed_alike_alone_and_in_a_batch(drawn: Members, how: Composition, weighted: bool) -> None:
    logits, labels = drawn
    weights = weights_for(logits) if weighted and how in WEIGHTABLE else None

    batch = compose(logits, labels, how, weights).scores

    for image in range(len(batch)):
        one = slice(image, image + 1)
        alone = compose([member[one] for member in logits], labels, how, None if weights is None else weights[one])
        torch.testing.assert_close(alone.scores, batch[one])


@pytest.mark.parametrize("how", WEIGHTABLE)
@pytest.mark.parametrize("weighted", [False, True])
def test_one_prompt_is_composed_to_its_own_scores(how: Composition, weighted: bool) -> None:
    logits = torch.tensor([[3.0, -1.0, 0.5], [0.0, 2.0, 1.0]])

    composed = compose([logits], [("a", "b", "c")], how, torch.ones(2, 1) if weighted else None)

    torch.testing.assert_close(composed.scores, logits.softmax(1))


@settings(max_examples=60)
@given(members(), st.sampled_from(WEIGHTABLE), st.integers(2, 4))
def test_a_set_repeated_several_times_gives_the_same_scores(drawn: Members, how: Composition, times: int) -> None:
    logits, labels = drawn

    once = compose(logits, labels, how)
    often = compose(logits * times, labels * times, how)

    torch.testing.assert_close(often.scores, once.scores)


@settings(max_examples=60)
@given(members())
def test_the_winner_of_a_vote_has_the_most_votes(drawn: Members) -> None:
    logits, labels = drawn

    composed = compose(logits, labels, "vote")

    for image, winner in enumerate(composed.scores.argmax(1).tolist()):
        votes = [own[int(member[image].argmax())] for member, own in zip(logits, labels, strict=True)]
        assert votes.count(composed.labels[winner]) == max(votes.count(label) for label in votes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("how", COMPOSITIONS)
def test_half_precision_is_composed_in_float32(dtype: torch.dtype, how: Composition) -> None:
    logits = [torch.tensor([[0.1, 0.2, 0.3]], dtype=dtype), torch.tensor([[3.0, 2.0, 1.0]], dtype=dtype)]

    composed = compose(logits, [("a", "b", "c")] * 2, how)

    exact = compose([member.float() for member in logits], [("a", "b", "c")] * 2, how)
    assert composed.scores.dtype == torch.float32
    assert torch.equal(composed.scores, exact.scores)


def test_the_inputs_are_not_modified() -> None:
    logits, weights = [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])], torch.tensor([[0.5, 0.5]])

    compose(logits, [("a", "b")] * 2, "concat", weights)
    compose(logits, [("a", "b")] * 2, "vote")

    assert [member.tolist() for member in logits] == [[[1.0, 2.0]], [[3.0, 4.0]]]


@pytest.mark.parametrize("how", COMPOSITIONS)
def test_a_batch_of_no_images_has_no_scores(how: Composition) -> None:
    assert compose([torch.empty(0, 2)], [("a", "b")], how).scores.shape == (0, 2)


class ForbidDeviceReads(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """Fails on operations that copy numbers from the device."""

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        assert func not in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


def test_composition_does_not_wait_for_the_device() -> None:
    labels = [("a", "b"), ("b", "c")]
    logits = [torch.zeros(2, 2), torch.zeros(2, 2)]

    with ForbidDeviceReads():  # type: ignore[no-untyped-call]
        weights = prototype_weights(torch.zeros(2, 4), [torch.zeros(3, 4)] * 2)
        answers = [compose(logits, labels, how) for how in COMPOSITIONS]
        answers += [compose(logits, labels, how, weights) for how in WEIGHTABLE]
        with pytest.raises(AssertionError):
            weights.sum().item()

    assert [answer.scores.shape for answer in answers] == [(2, 3)] * 5


@pytest.mark.parametrize("how", COMPOSITIONS)
def test_an_empty_set_is_refused(how: Composition) -> None:
    with pytest.raises(CompositionInvalid, match="at least one"):
        compose([], [], how)


def test_a_weighted_vote_is_refused_with_the_alternatives() -> None:
    with pytest.raises(CompositionInvalid, match="'average' or 'concat'"):
        compose([torch.zeros(1, 2)], [("a", "b")], "vote", torch.ones(1, 1))


@pytest.mark.parametrize("weights", [None, torch.ones(1, 1)])
def test_an_unknown_composition_is_refused(weights: Tensor | None) -> None:
    with pytest.raises(CompositionInvalid, match="'average', 'concat' or 'vote'"):
        compose([torch.zeros(1, 2)], [("a", "b")], "median", weights)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shapes", "labels", "weights", "reason"),
    [
        ([(1, 2)], [], None, "logits of 1 prompts, but labels of 0"),
        ([(1, 3)], ["ab"], None, r"logits over 2 labels must .* not \(1, 3\)"),
        ([(1, 2), (2, 2)], ["ab", "ab"], None, "same B"),
        ([(2,)], ["ab"], None, r"not \(2,\)"),
        ([()], ["ab"], None, r"not \(\)"),
        ([(1, 2, 1)], ["ab"], None, r"not \(1, 2, 1\)"),
        ([(1, 0)], [""], None, "must have a label"),
        ([(1, 2)], ["aa"], None, "twice"),
        ([(1, 2)], ["ab"], (1, 2), r"the weights of 1 prompts must .* not \(1, 2\)"),
        ([(1, 2)], ["ab"], (2, 1), r"not \(2, 1\)"),
        ([(1, 2)], ["ab"], (1,), r"not \(1,\)"),
    ],
)
def test_members_whose_shapes_do_not_fit_are_refused(
    shapes: list[tuple[int, ...]], labels: list[str], weights: tuple[int, ...] | None, reason: str
) -> None:
    with pytest.raises(CompositionInvalid, match=reason):
        compose(
            [torch.zeros(shape) for shape in shapes],
            [tuple(own) for own in labels],
            "average",
            None if weights is None else torch.ones(weights),
        )
