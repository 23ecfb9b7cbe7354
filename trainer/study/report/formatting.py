"""Numbers and names as a report shows them: each number in its unit, with as many digits as matter."""

import re
from decimal import Decimal
from typing import NamedTuple

from trainer.study.results import Cell, Unit

MISSING = "–"
MINUS = "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# Characters that neither HTML nor XML can contain: most control characters, and surrogates.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


class Scale(NamedTuple):
    """The divisor of the numbers that are shown, and the suffix behind them."""

    divisor: Decimal
    suffix: str = ""


_PERCENT = Decimal("0.01")
# The smallest amount for which each scale is used.
_SCALES: dict[Unit, tuple[tuple[int, Scale], ...]] = {
    "text": ((0, Scale(Decimal(1))),),
    "count": ((0, Scale(Decimal(1))),),
    "share": ((0, Scale(_PERCENT, SPACE + "%")),),
    "points": ((0, Scale(_PERCENT)),),
    "ratio": ((0, Scale(Decimal(1), SPACE + "×")),),
    "milliseconds": ((0, Scale(Decimal(1), SPACE + "ms")), (10_000, Scale(Decimal(1_000), SPACE + "s"))),
    "bytes": tuple(
        (1_000**power if power else 0, Scale(Decimal(1_000) ** power, SPACE + prefix))
        for power, prefix in enumerate(("B", "kB", "MB", "GB", "TB"))
    ),
}


def choose_scale(unit: Unit, largest: float) -> Scale:
    """Return the scale for numbers of up to this amount."""
    return [scale for least, scale in _SCALES[unit] if largest >= least][-1]


def format_cell(cell: Cell, unit: Unit) -> str:
    """Format a table cell; None becomes a dash."""
    if cell is None:
        return MISSING
    if isinstance(cell, str):
        return cell
    scale = choose_scale(unit, abs(cell))
    number = Decimal(str(cell)) / scale.divisor
    is_whole = number == number.to_integral_value()
    if number.adjusted() >= 15 or (number.adjusted() < -4 and unit not in ("share", "points")):
        text = f"{number:,.0f}" if not number else f"{number:.3g}"
    elif unit == "share":
        text = f"{number:.1f}"
    elif unit == "points":
        text = f"{number:+.1f}"
    elif is_whole and unit in ("count", "text", "bytes"):
        text = f"{number:,.0f}"
    else:
        text = f"{number:,.{max(0, 2 - number.adjusted())}f}"  # three significant digits
    return _typeset_sign(text) + scale.suffix


def format_deviation(deviation: float, unit: Unit) -> str:
    """Format a standard deviation for the place after its mean: points without a sign, shares without "%"."""
    return format_cell(deviation, unit).lstrip("+").removesuffix(SPACE + "%")


def format_tick(number: float, unit: Unit, scale: Scale) -> str:
    """Format a tick of an axis whose numbers are already divided by the scale."""
    sign = "+" if unit == "points" else ""
    return _typeset_sign(f"{round(number, 10):{sign},.6g}") + scale.suffix


def _typeset_sign(text: str) -> str:
    """Use a true minus sign, and no sign before zero."""
    if not text.strip("+-0.,"):
        return text.lstrip("+-")
    return text.replace("-", MINUS, 1) if text.startswith("-") else text


def label_paper(name: str, from_paper: bool) -> str:
    """Mark the name of a column or series as the paper's, unless it says so already."""
    return f"{name} (paper)" if from_paper and "paper" not in name.casefold() else name


def replace_invalid_characters(text: str) -> str:
    """Replace characters that no page can contain."""
    return _NOT_IN_XML.sub(REPLACEMENT, text)
