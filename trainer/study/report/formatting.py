"""Numbers as people read them: each by its unit, in as many digits as mean something."""

from dataclasses import dataclass
from decimal import Decimal

from trainer.study.results import Cell, Unit

MISSING = "–"
MINUS = "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Scale:
    """What numbers are divided by to be shown, and what then stands behind them."""

    divisor: Decimal
    suffix: str = ""


_PERCENT = Decimal("0.01")
# From which amount on each scale is the one to use.
_SCALES: dict[Unit, tuple[tuple[int, Scale], ...]] = {
    "text": ((0, Scale(Decimal(1))),),
    "count": ((0, Scale(Decimal(1))),),
    "share": ((0, Scale(_PERCENT, SPACE + "%")),),
    "points": ((0, Scale(_PERCENT)),),
    "ratio": ((0, Scale(Decimal(1), SPACE + "×")),),
    "milliseconds": ((0, Scale(Decimal(1), SPACE + "ms")), (10_000, Scale(Decimal(1_000), SPACE + "s"))),
    "seconds": (
        (0, Scale(Decimal(1), SPACE + "s")),
        (120, Scale(Decimal(60), SPACE + "min")),
        (7_200, Scale(Decimal(3_600), SPACE + "h")),
    ),
    "bytes": tuple(
        (1_000**power if power else 0, Scale(Decimal(1_000) ** power, SPACE + prefix))
        for power, prefix in enumerate(("B", "kB", "MB", "GB", "TB"))
    ),
}


def scale_of(unit: Unit, largest: Decimal) -> Scale:
    """The scale in which numbers of up to this amount are best read."""
    return [scale for least, scale in _SCALES[unit] if largest >= least][-1]


def show(cell: Cell, unit: Unit) -> str:
    """The cell as it stands in a table; what was not measured is a dash."""
    if cell is None:
        return MISSING
    if isinstance(cell, str):
        return cell
    scale = scale_of(unit, abs(decimal_of(cell)))
    number = decimal_of(cell) / scale.divisor
    is_whole = number == number.to_integral_value()
    if number.adjusted() >= 15:  # too long to read in full, and more than any study has
        text = f"{number:.3g}"
    elif unit == "share":
        text = f"{number:.1f}"
    elif unit == "points":
        text = f"{number:+.1f}"
    elif is_whole and unit in ("count", "text", "bytes"):
        text = f"{number:,.0f}"
    elif number.adjusted() < -4:
        text = f"{number:.3g}"
    else:
        text = f"{number:,.{max(0, 2 - number.adjusted())}f}"  # three digits that count
    return signed(text) + scale.suffix


def show_spread(spread: float, unit: Unit) -> str:
    """How far several figures lie apart, as it stands behind their mean: points without a sign, shares without "%"."""
    return show(spread, unit).lstrip("+").removesuffix(SPACE + "%")


def decimal_of(number: float | Decimal) -> Decimal:
    """The number in the digits that people write it with: 0.1 is a tenth."""
    return Decimal(str(number))


def signed(text: str) -> str:
    """A number with a true minus sign, and none at all before a zero."""
    if not text.strip("+-0.,"):
        return text.lstrip("+-")
    return text.replace("-", MINUS, 1) if text.startswith("-") else text


def label_paper(name: str, from_paper: bool) -> str:
    """The name of a column or series, from which one can see whether it is the paper's."""
    return f"{name} (paper)" if from_paper and "paper" not in name.casefold() else name
