"""Axes hold whatever numbers there are, and their ticks are round."""

from decimal import Decimal
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.study.report.ticks import Axis, along, along_log, round_step, upward
from trainer.study.results import Unit

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ABOVE_ZERO = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
UNITS: tuple[Unit, ...] = get_args(Unit)


def texts(axis: Axis) -> list[str]:
    return [tick.text.replace("\N{NO-BREAK SPACE}", " ") for tick in axis.ticks]


@pytest.mark.parametrize(
    ("numbers", "unit", "expected"),
    [
        ([0.739, 0.991], "share", "70 % 75 % 80 % 85 % 90 % 95 % 100 %"),
        ([0.82], "share", "70 % 75 % 80 % 85 % 90 % 95 %"),
        ([0.82, 0.82 + 1e-12], "share", "70 % 75 % 80 % 85 % 90 % 95 %"),
        ([1.0, 1.0], "share", "90 % 92 % 94 % 96 % 98 % 100 %"),
        ([0.0], "share", "0.0 % 0.2 % 0.4 % 0.6 % 0.8 % 1.0 %"),
        ([0.9871, 0.9892], "share", "98.70 % 98.75 % 98.80 % 98.85 % 98.90 % 98.95 %"),
        ([-0.046, 0.017], "points", "−6 −4 −2 0 +2"),
        ([0, 3], "count", "0 1 2 3"),
        ([2, 2], "count", "1 2 3"),
        ([0.0], "count", "0 1"),
        ([100.0, 5_460.0], "seconds", "0 min 20 min 40 min 60 min 80 min 100 min"),
        ([79_200, 22_100_000], "bytes", "0 MB 5 MB 10 MB 15 MB 20 MB 25 MB"),
        ([0.9, 1.3], "ratio", "0.9 × 1.0 × 1.1 × 1.2 × 1.3 ×"),
        ([0.0, 4e9], "count", "0 1e+9 2e+9 3e+9 4e+9"),
    ],
    ids=str,
)
def test_what_stands_at_the_ticks_of_an_upward_axis(numbers: list[float], unit: Unit, expected: str) -> None:
    assert " ".join(texts(upward(numbers, unit))) == expected


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (list(range(21)), "0 5 10 15 20"),
        ([1, 2], "1 2"),
        ([0.5, 1.0], "0.5 0.6 0.7 0.8 0.9 1.0"),
        ([20], "20"),
        ([-3, -1], "−3 −2 −1"),
        ([0, 100_000], "0 20,000 40,000 60,000 80,000 100,000"),
    ],
    ids=str,
)
def test_what_stands_at_the_ticks_along_an_axis(numbers: list[float], expected: str) -> None:
    assert " ".join(texts(along(numbers))) == expected


def test_a_log_axis_has_the_points_own_ticks_and_equal_ratios_are_equally_long() -> None:
    axis = along_log([1, 2, 4, 16, 2])

    assert texts(axis) == ["1", "2", "4", "16"]
    assert [tick.place for tick in axis.ticks] == pytest.approx([0, 0.25, 0.5, 1])


def test_one_number_stands_in_the_middle() -> None:
    assert along([7]).place(7) == 0.5
    assert along_log([7]).place(7) == 0.5


@given(st.decimals(min_value=Decimal("1e-300"), max_value=Decimal("1e300"), allow_nan=False, allow_infinity=False))
def test_a_step_is_round_and_goes_into_its_span_a_few_times(span: Decimal) -> None:
    step = round_step(span)

    assert step.normalize().as_tuple().digits in ((1,), (2,), (5,))
    assert 2 < span / step <= 6


@given(st.lists(FINITE, min_size=1), st.sampled_from(UNITS))
def test_an_upward_axis_holds_all_numbers_between_its_first_and_last_tick(numbers: list[float], unit: Unit) -> None:
    axis = upward(numbers, unit)

    places = [tick.place for tick in axis.ticks]
    assert (places[0], places[-1]) == (0, 1)
    assert places == sorted(set(places))
    assert len(places) <= 9
    assert axis.low <= min(Decimal(str(number)) for number in numbers)
    assert axis.high >= max(Decimal(str(number)) for number in numbers)
    assert len(set(texts(axis))) == len(places)


@given(st.lists(FINITE, min_size=1))
def test_an_axis_along_holds_all_numbers_and_its_ticks(numbers: list[float]) -> None:
    axis = along(numbers)

    assert 1 <= len(axis.ticks) <= 8
    assert all(0 <= tick.place <= 1 for tick in axis.ticks)
    assert axis.low <= min(Decimal(str(number)) for number in numbers)
    assert axis.high >= max(Decimal(str(number)) for number in numbers)


@given(st.lists(ABOVE_ZERO, min_size=1), st.data())
def test_places_keep_the_order_of_the_numbers(numbers: list[float], data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from([along(numbers), along_log(numbers), upward(numbers, "ratio")]))

    places = [axis.place(number) for number in sorted(numbers)]

    assert places == sorted(places)
    assert all(0 <= place <= 1 for place in places)
