"""Axes: from where to where they go, and which ticks stand on them, at round numbers or at the points' own.

All is computed in decimals: they hold any number that a point may have and any difference of two, and a
round number is one in the digits that people read.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from trainer.study.report.formatting import decimal_of, scale_of, show, signed
from trainer.study.results import Unit

MOST_TICKS = 6
_FLAT = Decimal("1e-6")  # of the largest: numbers that are closer than this are drawn as equal


@dataclass(frozen=True)
class Tick:
    """A place along an axis, from 0 to 1, and what is written there."""

    place: float
    text: str


@dataclass(frozen=True)
class Axis:
    """A way along which numbers are placed: 0 is where it begins, 1 where it ends."""

    low: Decimal
    high: Decimal
    is_log: bool = False
    ticks: tuple[Tick, ...] = ()

    def place(self, number: float | Decimal) -> float:
        """Where the number lies, from 0 to 1."""
        value = _log(number) if self.is_log else decimal_of(number)
        return min(1.0, max(0.0, float((value - self.low) / (self.high - self.low))))


def upward(numbers: Sequence[float], unit: Unit) -> Axis:
    """An axis with a round number at either end, that shows numbers in the unit's best scale."""
    scale = scale_of(unit, max(abs(decimal_of(number)) for number in numbers))
    low, high = _span([decimal_of(number) / scale.divisor for number in numbers])
    if min(numbers) >= 0:
        low = max(low, Decimal(0))
    if unit == "share" and max(numbers) <= 1:  # of all there is no more than all
        high = min(high, Decimal(100))
    step = round_step(high - low, least=Decimal(1) if unit == "count" else None)
    marks = _multiples(_down(low, step), _up(high, step), step)
    axis = Axis(marks[0] * scale.divisor, marks[-1] * scale.divisor)
    texts = _texts(marks, step, has_sign=unit == "points")
    ticks = (
        Tick(axis.place(mark * scale.divisor), text + scale.suffix) for mark, text in zip(marks, texts, strict=True)
    )
    return Axis(axis.low, axis.high, ticks=tuple(ticks))


def along(numbers: Sequence[float]) -> Axis:
    """An axis from the least to the largest number, with the round ones between them."""
    own = sorted({decimal_of(number) for number in numbers})
    axis = Axis(*_span(own))
    if len(own) == 1:
        return Axis(axis.low, axis.high, ticks=(Tick(0.5, show(numbers[0], "count")),))
    are_whole = all(number == number.to_integral_value() for number in own)
    step = round_step(axis.high - axis.low, least=Decimal(1) if are_whole else None)
    marks = _multiples(_up(axis.low, step), _down(axis.high, step), step)
    ticks = (Tick(axis.place(mark), text) for mark, text in zip(marks, _texts(marks, step), strict=True))
    return Axis(axis.low, axis.high, ticks=tuple(ticks))


def along_log(numbers: Sequence[float]) -> Axis:
    """An axis on which equal ratios are equally long, with the numbers' own ticks; they must be above zero."""
    own = sorted(set(numbers))
    axis = Axis(*_span([_log(number) for number in own]), is_log=True)
    ticks = tuple(Tick(axis.place(number), show(number, "count")) for number in own)
    return Axis(axis.low, axis.high, is_log=True, ticks=ticks)


def round_step(span: Decimal, least: Decimal | None = None) -> Decimal:
    """The smallest of 1, 2, 5, 10, 20, 50, ... and their tenths that goes into the span a few times only."""
    tens = Decimal(1).scaleb(span.adjusted() - 1)
    steps = [digit * tens * ten for ten in (1, 10, 100) for digit in (1, 2, 5)]
    step = next(step for step in steps if span / step <= MOST_TICKS)
    return step if least is None else max(step, least)


def _span(numbers: Sequence[Decimal]) -> tuple[Decimal, Decimal]:
    """From the least to the largest, and some room around those that are as good as equal."""
    low, high = min(numbers), max(numbers)
    largest = max(abs(low), abs(high))
    if high - low > _FLAT * largest:
        return low, high
    room = largest / 10 or Decimal(1)
    return low - room, high + room


def _log(number: float | Decimal) -> Decimal:
    return Decimal(math.log10(number))


def _up(number: Decimal, step: Decimal) -> Decimal:
    return (number / step).to_integral_value(ROUND_CEILING) * step


def _down(number: Decimal, step: Decimal) -> Decimal:
    return (number / step).to_integral_value(ROUND_FLOOR) * step


def _multiples(low: Decimal, high: Decimal, step: Decimal) -> list[Decimal]:
    return [low + step * each for each in range(int((high - low) / step) + 1)]


def _texts(marks: Sequence[Decimal], step: Decimal, has_sign: bool = False) -> list[str]:
    """The marks, each in as many digits as tell it from its neighbours."""
    sign = "+" if has_sign else ""
    decimals = max(0, -step.adjusted())
    if decimals > 6 or max(abs(mark) for mark in marks).adjusted() > 8:  # longer than there is room for
        return [signed(f"{mark.normalize():{sign}.7g}") if mark else "0" for mark in marks]
    return [signed(f"{mark:{sign},.{decimals}f}") for mark in marks]
