"""Plots, drawn by matplotlib as SVG elements whose colours follow the page's light or dark theme.

The SVG holds lines, ticks and tooltips. Labels and the legend are HTML beside it, so that names of any length wrap.
"""

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from xml.etree import ElementTree

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from trainer.study.report.formatting import (
    Scale,
    choose_scale,
    format_cell,
    format_tick,
    label_paper,
    replace_invalid_characters,
)
from trainer.study.results import Plot, Series

WIDTH, HEIGHT = 440, 250
MOST_FIXED_TICKS = 10
# Distinguishable with every kind of colour vision, and on white. The page's style sheet has the same ones as
# --series-0 to --series-5, and others for the dark theme.
COLOURS = ("#0c5b8e", "#d55e00", "#409e86", "#dd4cd4", "#6b2d00", "#190f6a")
INK, BACKGROUND = "#000000", "#ffffff"
# Five markers and six colours: 30 series differ from each other. The legend draws the same shapes by their paths.
MARKERS = {
    "o": "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "s": "M-4,-4h8v8h-8z",
    "^": "M0,-4L4,4H-4z",
    "D": "M0,-5L5,0L0,5L-5,0z",
    "v": "M0,4L4,-4H-4z",
}

_THEME = {INK: "currentColor", BACKGROUND: "var(--card)"} | {
    colour: f"var(--series-{number})" for number, colour in enumerate(COLOURS)
}
_STYLE = {
    "axes.edgecolor": INK,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 12,
    "svg.fonttype": "none",
    "text.parse_math": False,  # "$" in a name is a dollar sign
    "ytick.major.size": 0,
}
_SVG, _HREF = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"


@dataclass(frozen=True)
class SeriesStyle:
    """The look of a series: its colour and marker, hollow and dashed if it is the paper's."""

    colour: str  # in the light theme
    marker: str  # in matplotlib
    from_paper: bool

    @property
    def theme_colour(self) -> str:
        """The colour as a variable of the page's style sheet."""
        return _THEME[self.colour]

    @property
    def marker_path(self) -> str:
        """The marker as an SVG path around 0, 0."""
        return MARKERS[self.marker]


def assign_styles(series: Sequence[Series]) -> list[SeriesStyle]:
    """Give each series a look of its own; ours and the paper's of the same name share colour and marker."""
    repeats: Counter[tuple[str, bool]] = Counter()
    keys = []
    for one in series:
        keys.append((one.name, repeats[one.name, one.from_paper]))
        repeats[one.name, one.from_paper] += 1
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    looks = [(COLOURS[n % len(COLOURS)], list(MARKERS)[n % len(MARKERS)]) for n in (numbers[key] for key in keys)]
    return [SeriesStyle(*look, one.from_paper) for look, one in zip(looks, series, strict=True)]


def has_log_axis(plot: Plot) -> bool:
    """Whether the x axis is logarithmic; zero and negative numbers have no place on such an axis."""
    return plot.has_log_x and all(x > 0 for series in plot.series for x, _ in series.points)


def render_svg(plot: Plot, id_prefix: str) -> str:
    """Draw the plot as one SVG element; ids in it begin with the prefix, so that several fit in a page."""
    plot.validate()
    ys = [y for series in plot.series for y in (*(y for _, y in series.points), *series.low, *series.high)]
    scale = choose_scale(plot.unit, max(map(abs, ys), default=0.0))
    buffer = io.BytesIO()
    with style.context({**_STYLE, "svg.hashsalt": id_prefix}, after_reset=True):
        figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72), layout="constrained")
        axes = figure.add_subplot()
        for number, (series, appearance) in enumerate(zip(plot.series, assign_styles(plot.series), strict=True)):
            if series.points:
                _draw_series(axes, series, appearance, scale, f"line-{number}")
        if ys:
            _set_axes(axes, plot, scale, is_share=plot.unit == "share" and min(ys) >= 0 and max(ys) <= 1)
        else:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "nothing was measured", ha="center", transform=axes.transAxes)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _adapt_to_page(buffer.getvalue(), plot, id_prefix)


def _draw_series(axes: Axes, series: Series, appearance: SeriesStyle, scale: Scale, gid: str) -> None:
    divisor = float(scale.divisor)
    xs = [x for x, _ in series.points]
    if series.low:
        low, high = ([y / divisor for y in edge] for edge in (series.low, series.high))
        axes.fill_between(xs, low, high, color=appearance.colour, alpha=0.16, linewidth=1, clip_on=False)
    axes.plot(
        xs,
        [y / divisor for _, y in series.points],
        color=appearance.colour,
        linestyle=(0, (3, 2)) if appearance.from_paper else "-",
        linewidth=2,
        marker=appearance.marker,
        markersize=7,
        markerfacecolor=BACKGROUND if appearance.from_paper else appearance.colour,
        markeredgewidth=1.5,
        clip_on=False,
        gid=gid,
    )


def _set_axes(axes: Axes, plot: Plot, scale: Scale, is_share: bool) -> None:
    axes.grid(axis="y", color=INK, alpha=0.13, clip_on=False)
    if plot.unit == "points":
        axes.axhline(0, color=INK, alpha=0.55, linewidth=1, clip_on=False, zorder=1)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=plot.unit == "count"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: format_tick(y, plot.unit, scale)))
    if is_share:
        bottom, top = axes.get_ylim()
        axes.set_ylim(max(bottom, 0), min(top, 100))
    xs = sorted({x for series in plot.series for x, _ in series.points})
    if has_log_axis(plot):
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        if len(xs) <= MOST_FIXED_TICKS:
            axes.xaxis.set_major_locator(FixedLocator(xs))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=all(x == int(x) for x in xs)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: format_tick(x, "count", Scale(Decimal(1)))))


def _adapt_to_page(svg: bytes, plot: Plot, id_prefix: str) -> str:
    """Make matplotlib's SVG fit a page without inline styles: attributes in their place, and the theme's colours."""
    root = ElementTree.fromstring(svg)  # noqa: S314  # matplotlib's own output
    for number, series in enumerate(plot.series):
        _add_tooltips(root, f"line-{number}", plot, series)
    for parent in root.iter():
        for child in [child for child in parent if child.tag in (_SVG + "metadata", _SVG + "style")]:
            parent.remove(child)
        for declaration in parent.attrib.pop("style", "").split(";"):
            name, _, value = (part.strip() for part in declaration.partition(":"))
            if name and name != "font-family":
                parent.set(name, _THEME.get(value, value))
        if _HREF in parent.attrib:
            parent.set("href", f"#{id_prefix}-{parent.attrib.pop(_HREF)[1:]}")
        if "id" in parent.attrib:
            name = parent.attrib.pop("id")
            if parent.tag != _SVG + "g":  # groups are never referred to
                parent.set("id", f"{id_prefix}-{name}")
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"class": "plot", "role": "img", "aria-label": _describe(plot)}
    ElementTree.register_namespace("", _SVG[1:-1])
    return ElementTree.tostring(root, encoding="unicode")


def _add_tooltips(root: ElementTree.Element, gid: str, plot: Plot, series: Series) -> None:
    markers = [] if (line := root.find(f".//*[@id='{gid}']")) is None else list(line.iter(_SVG + "use"))
    for index, (marker, (x, y)) in enumerate(zip(markers, series.points, strict=True)):
        text = f"{label_paper(series.name, series.from_paper)}\n{plot.x_label}: {format_cell(x, 'count')}\n"
        text += f"{plot.y_label}: {format_cell(y, plot.unit)}"
        if series.low:
            low, high = (format_cell(edge[index], plot.unit) for edge in (series.low, series.high))
            text += f" ({low} to {high})"
        ElementTree.SubElement(marker, _SVG + "title").text = replace_invalid_characters(text)


def _describe(plot: Plot) -> str:
    """Describe the first and last point of each line, for screen readers."""
    sentences = [f"{plot.title}: {plot.y_label} over {plot.x_label}."]
    for series in plot.series:
        name = label_paper(series.name, series.from_paper)
        ends = dict.fromkeys((*series.points[:1], *series.points[-1:]))
        text = " to ".join(f"{format_cell(y, plot.unit)} at {format_cell(x, 'count')}" for x, y in ends)
        sentences.append(f"{name}: {text or 'nothing was measured'}.")
    return replace_invalid_characters(" ".join(sentences))
