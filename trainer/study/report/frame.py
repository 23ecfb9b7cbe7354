"""Where things stand in a plot: the room for the lines, and the axes around it."""

from dataclasses import dataclass

from trainer.study.report.text_width import width_of
from trainer.study.report.ticks import Axis, Tick, along, along_log, upward
from trainer.study.results import Plot

WIDTH = 440.0
LETTER = 13.0  # the size of all letters
LINE = 20.0  # from one line of text to the next
_AREA = 220.0
_EDGE = 8.0
_INSET = 16.0  # between the axes' ends and the first and last points, so that no marker touches them


@dataclass(frozen=True)
class Frame:
    """The area of the lines within a plot, and what its two directions mean."""

    left: float
    right: float
    top: float
    bottom: float
    x: Axis
    y: Axis
    x_ticks: tuple[Tick, ...]  # those of the axis that have room beside each other

    def across(self, place: float) -> float:
        """The distance from the left of a place along the x axis."""
        return self.left + _INSET + place * (self.right - self.left - 2 * _INSET)

    def down(self, place: float) -> float:
        """The distance from the top of a place along the y axis."""
        return self.bottom - place * (self.bottom - self.top)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point stands."""
        return self.across(self.x.place(x)), self.down(self.y.place(y))


def frame_of(plot: Plot) -> Frame:
    """A frame in which all points and bands of the plot have a place."""
    xs = [x for series in plot.series for x, _ in series.points] or [0.0]
    ys = [y for series in plot.series for y in (*(y for _, y in series.points), *series.low, *series.high)] or [0.0]
    y_axis = upward(ys, plot.unit)
    x_axis = along_log(xs) if plot.has_log_x and min(xs) > 0 else along(xs)  # zero has no place on a log axis
    left = max(width_of(tick.text, LETTER) for tick in y_axis.ticks) + _EDGE + 6
    right = WIDTH - _EDGE
    room = right - left - 2 * _INSET
    top = LETTER + 2 * _EDGE
    return Frame(left, right, top, top + _AREA, x_axis, y_axis, _apart(x_axis.ticks, room))


def _apart(ticks: tuple[Tick, ...], room: float) -> tuple[Tick, ...]:
    """The ticks whose texts do not run into each other; the first and the last are kept before others."""
    if len(ticks) < 2:
        return ticks
    first, *between, last = ticks
    kept = [first]
    for tick in between:
        if _have_room(kept[-1], tick, room) and _have_room(tick, last, room):
            kept.append(tick)
    return (*kept, last) if _have_room(kept[-1], last, room) else tuple(kept)


def _have_room(tick: Tick, other: Tick, room: float) -> bool:
    half = (width_of(tick.text, LETTER) + width_of(other.text, LETTER)) / 2
    return (other.place - tick.place) * room >= half + 4
