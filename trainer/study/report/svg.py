"""Plots as SVG, drawn by hand: each shows all that it has without a script, in print, and to a screen reader."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.study.report.formatting import label_paper, show
from trainer.study.report.frame import LETTER, LINE, WIDTH, Frame, frame_of
from trainer.study.report.markup import Markup, element, join
from trainer.study.report.text_width import fit, width_of
from trainer.study.results import Plot, Series

# Told apart by every kind of eye, and on white; a page may give its own by the class, such as on black.
COLOURS = ("#0c5b8e", "#d55e00", "#409e86", "#dd4cd4", "#6b2d00", "#190f6a")
# Around a point at 0, 0; five of them and six colours meet again only after 30 series.
MARKERS = (
    "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z",
    "M-4,-4h8v8h-8z",
    "M0,-5.4L5,3.6H-5z",
    "M0,-5.6L5.6,0L0,5.6L-5.6,0z",
    "M0,5.4L5,-3.6H-5z",
)
_EDGE = 8.0
_SAMPLE = 28.0  # the length of a line in the legend
_INDENT = _SAMPLE + 8  # where the name beside it begins
_REACH = 10.0  # around a point, in which one is told of it


@dataclass(frozen=True)
class Look:
    """How a series is told from the others: colour and marker are its name's, hollow and dashed is the paper's."""

    place: int
    from_paper: bool

    def group(self, *children: Markup) -> Markup:
        """The children in this look's colour."""
        number = self.place % len(COLOURS)
        return element("g", *children, class_=f"series-{number}", color=COLOURS[number])

    def line(self, path: str) -> Markup:
        """A line along the path."""
        dashes = "6 4" if self.from_paper else None
        return element(
            "path", d=path, fill="none", stroke="currentColor", stroke_width=2, stroke_dasharray=dashes,
            stroke_linejoin="round",
        )  # fmt: skip

    def marker(self, x: float, y: float) -> Markup:
        """A marker at this place."""
        return element(
            "path",
            d=MARKERS[self.place % len(MARKERS)],
            transform=f"translate({_at(x, y)})",
            class_="hollow" if self.from_paper else None,
            fill="#ffffff" if self.from_paper else "currentColor",
            stroke="currentColor",
            stroke_width=1.6,
        )


def plot_svg(plot: Plot) -> str:
    """The plot as one SVG element that needs nothing else."""
    plot.validate()
    frame = frame_of(plot)
    looks = _looks(plot.series)
    drawn = [(series, look) for series, look in zip(plot.series, looks, strict=True) if series.points]
    bands = [look.group(_band(series, frame)) for series, look in drawn if series.low]
    lines = [look.group(_line(series, look, frame), *_points(series, look, plot, frame)) for series, look in drawn]
    legend, bottom = _legend(plot.series, looks, frame.bottom + 2.9 * LINE)
    return element(
        "svg",
        element("title", plot.title),
        element("desc", _description(plot)),
        _grid(plot, frame),
        *bands,
        *lines,
        legend,
        *([] if drawn else [_text("nothing was measured", WIDTH / 2, (frame.top + frame.bottom) / 2, "middle")]),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_number(WIDTH)} {_number(bottom)}",
        role="img",
        class_="plot",
        font_family="system-ui, sans-serif",
        font_size=_number(LETTER),
        fill="currentColor",
    )


def _looks(series: Sequence[Series]) -> list[Look]:
    """A look for each: the same for ours and the paper's of one name, and for no other two."""
    namesakes: Counter[tuple[str, bool]] = Counter()
    keys = []
    for each in series:
        keys.append((each.name, namesakes[each.name, each.from_paper]))
        namesakes[each.name, each.from_paper] += 1
    places = list(dict.fromkeys(keys))
    return [Look(places.index(key), each.from_paper) for key, each in zip(keys, series, strict=True)]


def _grid(plot: Plot, frame: Frame) -> Markup:
    """The lines behind the points, and what is written at them; around nothing there are none."""
    has_points = any(series.points for series in plot.series)
    drawn = []
    for tick in frame.y.ticks if has_points else ():
        y = frame.down(tick.place)
        is_strong = tick.place == 0 or (plot.unit == "points" and tick.text.strip("0.") == "")
        drawn.append(_rule(f"M{_at(frame.left, y)}H{_number(frame.right)}", is_strong))
        drawn.append(_text(tick.text, frame.left - 6, y + LETTER * 0.35, "end"))
    for tick in frame.x_ticks if has_points else ():
        x = frame.across(tick.place)
        half = width_of(tick.text, LETTER) / 2
        drawn.append(_rule(f"M{_at(x, frame.top)}V{_number(frame.bottom + 4)}", False))
        drawn.append(_text(tick.text, min(max(x, half), WIDTH - half), frame.bottom + 0.9 * LINE, "middle"))
    middle = (frame.left + frame.right) / 2
    along = fit(plot.x_label + (" (log scale)" if frame.x.is_log else ""), frame.right - frame.left, LETTER)
    return element(
        "g",
        *drawn,
        _text(fit(plot.y_label, WIDTH - 16, LETTER), 8, LETTER + 2, "start", opacity=0.75),
        _text(along, middle, frame.bottom + 1.8 * LINE, "middle", opacity=0.75),
    )


def _rule(path: str, is_strong: bool) -> Markup:
    return element("path", d=path, fill="none", stroke="currentColor", stroke_opacity=0.55 if is_strong else 0.13)


def _band(series: Series, frame: Frame) -> Markup:
    """From the lowest to the highest that each point is a mean of; of one point alone it is a bar."""
    xs = [x for x, _ in series.points]
    upper = [frame.at(x, high) for x, high in zip(xs, series.high, strict=True)]
    lower = [frame.at(x, low) for x, low in zip(xs, series.low, strict=True)]
    outline = "L".join(_at(x, y) for x, y in [*upper, *reversed(lower)])
    return element(
        "path", d=f"M{outline}z", fill="currentColor", fill_opacity=0.14, stroke="currentColor", stroke_opacity=0.3
    )


def _line(series: Series, look: Look, frame: Frame) -> Markup:
    return look.line("M" + "L".join(_at(*frame.at(x, y)) for x, y in series.points))


def _points(series: Series, look: Look, plot: Plot, frame: Frame) -> list[Markup]:
    """The markers, each with what it stands for."""
    drawn = []
    for place, (x, y) in enumerate(series.points):
        said = f"{label_paper(series.name, series.from_paper)}\n{plot.x_label}: {show(x, 'count')}\n{plot.y_label}: "
        said += show(y, plot.unit)
        if series.low:
            said += f" ({show(series.low[place], plot.unit)} to {show(series.high[place], plot.unit)})"
        across, down = frame.at(x, y)
        reach = element(
            "circle", cx=_number(across), cy=_number(down), r=_REACH, fill="none", pointer_events="all"
        )  # fmt: skip
        drawn.append(element("g", element("title", said), look.marker(across, down), reach))
    return drawn


def _legend(series: Sequence[Series], looks: Sequence[Look], top: float) -> tuple[Markup, float]:
    """Names beside samples of their lines, in columns below everything else; and where it ends."""
    names = [_entry(each) for each in series]
    widest = max((width_of(name, LETTER) for name in names), default=0.0)
    columns = max(1, min(len(names), int((WIDTH - _EDGE) // (_INDENT + widest + 2 * _EDGE))))
    room = (WIDTH - _EDGE) / columns
    entries = []
    for place, (name, look) in enumerate(zip(names, looks, strict=True)):
        x, y = _EDGE + place % columns * room, top + place // columns * LINE
        sample = look.group(look.line(f"M{_at(x, y)}h{_number(_SAMPLE)}"), look.marker(x + _SAMPLE / 2, y))
        label = _text(fit(name, room - _INDENT - _EDGE, LETTER), x + _INDENT, y + LETTER * 0.35, "start")
        entries.append(element("g", element("title", name), sample, label))
    return join(*entries), top + -(-len(names) // columns) * LINE - LINE / 2 + 2


def _entry(series: Series) -> str:
    return label_paper(series.name, series.from_paper) + ("" if series.points else " (nothing was measured)")


def _description(plot: Plot) -> str:
    """What the lines do, in words."""
    said = [f"{plot.y_label} over {plot.x_label}."]
    for series in plot.series:
        name = label_paper(series.name, series.from_paper)
        if not series.points:
            said.append(f"{name}: nothing was measured.")
            continue
        ends = dict.fromkeys((series.points[0], series.points[-1]))
        said.append(f"{name}: " + " to ".join(f"{show(y, plot.unit)} at {show(x, 'count')}" for x, y in ends) + ".")
    return " ".join(said)


def _text(text: str, x: float, y: float, anchor: str, opacity: float | None = None) -> Markup:
    return element("text", text, x=_number(x), y=_number(y), text_anchor=anchor, opacity=opacity)


def _at(x: float, y: float) -> str:
    return f"{_number(x)},{_number(y)}"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
