"""Plots of any finite numbers and any names are drawn, follow the page's theme, and can be read without a picture."""

import math
from dataclasses import replace
from typing import get_args
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.study.report.plots import COLOURS, assign_styles, has_log_axis, render_svg
from trainer.study.report.write import FOLDER
from trainer.study.results import Plot, ReportInvalid, Series, Unit

SVG = "{http://www.w3.org/2000/svg}"
UNITS: tuple[Unit, ...] = get_args(Unit)
NUMBERS = st.floats(-1e12, 1e12)
HOSTILE = "</title><script>alert(1)</script>\"'&amp;\0\x1b\ud800]]>$\\frac$"
PLOT = Plot(
    "Accuracy over shards",
    "shards",
    "accuracy",
    "share",
    (
        Series("composed", ((1, 0.954), (2, 0.951), (10, 0.909))),
        Series("composed", ((1, 0.991), (2, 0.993), (50, 0.977)), from_paper=True),
        Series("alone", ((1, 0.95), (2, 0.917)), low=(0.94, 0.9), high=(0.96, 0.93)),
    ),
    has_log_x=True,
)


@st.composite
def random_series(draw: st.DrawFn) -> Series:
    points = draw(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=6))
    bound = st.lists(NUMBERS, min_size=len(points), max_size=len(points)).map(tuple)
    low, high = draw(st.tuples(bound, bound) | st.just(((), ())))
    return Series(draw(st.text(max_size=20)), tuple(sorted(points)), draw(st.booleans()), low, high)


PLOTS = st.builds(
    Plot,
    st.text(max_size=20),
    st.text(max_size=20),
    st.text(max_size=20),
    st.sampled_from(UNITS),
    st.lists(random_series(), max_size=4).map(tuple),
    st.booleans(),
)


def render(plot: Plot) -> Element:
    return fromstring(render_svg(plot, "plot"))


def texts(svg: Element, tag: str) -> list[str]:
    return ["".join(each.itertext()).replace("\N{NO-BREAK SPACE}", " ") for each in svg.iter(SVG + tag)]


def lines(svg: Element) -> list[Element]:
    return [each for each in svg.iter(SVG + "path") if each.get("stroke-width") == "2"]


@given(PLOTS)
@settings(max_examples=40)
def test_every_plot_is_drawn_with_all_its_points_within_its_bounds(plot: Plot) -> None:
    svg = render(plot)

    left, top, width, height = map(float, svg.attrib["viewBox"].split())
    markers = [each for each in svg.iter(SVG + "use") if each.find(SVG + "title") is not None]
    assert len(markers) == sum(len(series.points) for series in plot.series)
    assert all(left <= float(each.attrib["x"]) <= left + width for each in markers)
    assert all(top <= float(each.attrib["y"]) <= top + height for each in markers)


def test_hostile_names_are_text() -> None:
    series = tuple(replace(each, name=HOSTILE) for each in PLOT.series)
    svg = render(replace(PLOT, title=HOSTILE, x_label=HOSTILE, y_label=HOSTILE, series=series))

    assert list(svg.iter(SVG + "script")) == []
    assert texts(svg, "title")[0].startswith("</title><script>alert(1)</script>\"'&amp;\ufffd\ufffd\ufffd]]>$\\frac$")


def test_a_point_has_a_tooltip_with_its_series_x_and_value() -> None:
    tooltips = texts(render(PLOT), "title")

    assert "composed\nshards: 10\naccuracy: 90.9 %" in tooltips
    assert "composed (paper)\nshards: 50\naccuracy: 97.7 %" in tooltips
    assert "alone\nshards: 2\naccuracy: 91.7 % (90.0 % to 93.0 %)" in tooltips


def test_screen_readers_get_the_title_and_the_ends_of_each_line() -> None:
    svg = render(PLOT)

    assert svg.attrib["role"] == "img"
    assert svg.attrib["aria-label"].replace("\N{NO-BREAK SPACE}", " ") == (
        "Accuracy over shards: accuracy over shards. composed: 95.4 % at 1 to 90.9 % at 10. "
        "composed (paper): 99.1 % at 1 to 97.7 % at 50. alone: 95.0 % at 1 to 91.7 % at 2."
    )


def test_the_papers_lines_and_no_others_are_dashed_and_hollow() -> None:
    svg = render(PLOT)

    assert [each.get("stroke-dasharray") is not None for each in lines(svg)] == [False, True, False]
    fills = [each.attrib["fill"] for each in svg.iter(SVG + "use") if each.find(SVG + "title") is not None]
    assert fills == ["var(--series-0)"] * 3 + ["var(--card)"] * 3 + ["var(--series-1)"] * 2


def test_all_colours_are_those_of_the_theme() -> None:
    svg = render(PLOT)

    colours = {each.attrib[name] for each in svg.iter() for name in ("fill", "stroke") if name in each.attrib}
    assert colours == {"none", "currentColor", "var(--card)", "var(--series-0)", "var(--series-1)"}
    css = (FOLDER / "report.css").read_text()
    for number, colour in enumerate(COLOURS):
        assert f"--series-{number}: {colour};" in css
        assert css.count(f"--series-{number}:") == 2  # light and dark


def test_our_series_and_the_papers_of_the_same_name_share_colour_and_marker() -> None:
    ours, papers, other = assign_styles(PLOT.series)

    assert replace(papers, from_paper=False) == ours != other


@pytest.mark.parametrize("name", ["series {}", "same name"])
def test_thirty_series_all_look_different(name: str) -> None:
    styles = assign_styles([Series(name.format(n), ((1, n), (2, n))) for n in range(30)])

    assert len({(style.theme_colour, style.marker_path) for style in styles}) == 30


def test_the_same_plot_gives_the_same_text_and_ids_begin_with_the_prefix() -> None:
    text = render_svg(PLOT, "plot-1-1")

    assert text == render_svg(PLOT, "plot-1-1")
    ids = [each.attrib["id"] for each in fromstring(text).iter() if "id" in each.attrib]
    assert all(each.startswith("plot-1-1-") for each in ids)
    assert len(set(ids)) == len(ids)


def test_a_band_is_drawn_in_the_colour_of_its_line() -> None:
    svg = render(replace(PLOT, series=PLOT.series[2:]))

    bands = [each for each in svg.iter(SVG + "use") if "fill-opacity" in each.attrib]
    assert [each.attrib["fill"] for each in bands] == ["var(--series-0)"]


def test_a_log_axis_has_ticks_at_the_points() -> None:
    assert [text for text in texts(render(PLOT), "text") if text.isdigit()] == ["1", "2", "10", "50"]


def test_a_log_axis_with_a_zero_becomes_linear() -> None:
    assert has_log_axis(PLOT)
    assert not has_log_axis(replace(PLOT, series=(Series("a", ((0, 0.1), (1, 0.2))),)))


@pytest.mark.parametrize(
    ("unit", "ys", "expected"),
    [
        ("share", (0.739, 0.991), "75 % 80 % 85 % 90 % 95 % 100 %"),
        ("points", (-0.046, 0.017), "−4 −2 0 +2"),
        ("count", (0.0, 3.0), "0 1 2 3"),
        ("milliseconds", (1_000.0, 54_600.0), "0 s 10 s 20 s 30 s 40 s 50 s"),
        ("bytes", (79_200, 22_100_000), "0 MB 5 MB 10 MB 15 MB 20 MB"),
    ],
)
def test_ticks_are_round_numbers_in_the_unit(unit: Unit, ys: tuple[float, float], expected: str) -> None:
    plot = Plot("", "", "", unit, (Series("a", tuple((x, y) for x, y in zip((0.25, 0.5), ys, strict=True))),))

    ticks = [text for text in texts(render(plot), "text") if not text.startswith("0.")]
    assert " ".join(ticks) == expected


def test_a_single_point_with_a_band_is_drawn() -> None:
    svg = render(replace(PLOT, series=(Series("a", ((5, 0.5),), low=(0.4,), high=(0.6,)),)))

    assert texts(svg, "title") == ["a\nshards: 5\naccuracy: 50.0 % (40.0 % to 60.0 %)"]


@pytest.mark.parametrize("series", [(), (Series("heads", ()),)], ids=["no series", "no points"])
def test_a_plot_without_points_says_so(series: tuple[Series, ...]) -> None:
    assert texts(render(replace(PLOT, series=series)), "text") == ["nothing was measured"]


@pytest.mark.parametrize(
    "series",
    [
        Series("a", ((1, math.nan),)),
        Series("a", ((math.inf, 0.5),)),
        Series("a", ((1, 0.5),), low=(-math.inf,), high=(1.0,)),
        Series("a", ((1, 0.5),), low=(0.5,), high=(math.nan,)),
    ],
    ids=["y", "x", "low", "high"],
)
def test_a_number_that_is_not_finite_is_refused_by_name(series: Series) -> None:
    with pytest.raises(ReportInvalid, match="the series 'a' of the plot 'Accuracy over shards' holds"):
        render(replace(PLOT, series=(series,)))


@pytest.mark.parametrize(
    ("low", "high"), [((0.1, 0.2), ()), ((), (0.1, 0.2)), ((0.1,), (0.2,)), ((0.1, 0.2), (0.3,))], ids=str
)
def test_a_band_that_does_not_fit_its_points_is_refused(low: tuple[float, ...], high: tuple[float, ...]) -> None:
    with pytest.raises(ReportInvalid, match="for 2 points: give both for each point, or none"):
        render(replace(PLOT, series=(Series("a", ((1, 0.5), (2, 0.5)), low=low, high=high),)))
