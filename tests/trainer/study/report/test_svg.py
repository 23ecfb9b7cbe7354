"""Plots are drawn within their bounds, whatever the numbers and names, and say what they show without a picture."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import get_args
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.study.fixtures import example_report
from tests.trainer.study.report.parse_svg import places_of, text_of
from trainer.study.report.frame import LETTER
from trainer.study.report.svg import plot_svg
from trainer.study.report.text_width import width_of
from trainer.study.results import Plot, ReportInvalid, Series, Unit

SVG = "{http://www.w3.org/2000/svg}"
UNITS: tuple[Unit, ...] = get_args(Unit)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
HOSTILE = "</title><script>alert(1)</script>\"'&amp;\0\x1b\ud800]]>"
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
def some_series(draw: st.DrawFn, names: st.SearchStrategy[str]) -> Series:
    points = draw(st.lists(st.tuples(FINITE, FINITE), max_size=6))
    bound = st.lists(FINITE, min_size=len(points), max_size=len(points)).map(tuple)
    low, high = draw(st.tuples(bound, bound) | st.just(((), ())))
    return Series(draw(names), tuple(sorted(points)), draw(st.booleans()), low, high)


def plots(names: st.SearchStrategy[str]) -> st.SearchStrategy[Plot]:
    series = st.lists(some_series(names), max_size=5).map(tuple)
    return st.builds(Plot, names, names, names, st.sampled_from(UNITS), series, st.booleans())


def drawn(plot: Plot) -> Element:
    return fromstring(plot_svg(plot))


def view_of(svg: Element) -> tuple[float, float]:
    left, top, width, height = (float(side) for side in svg.attrib["viewBox"].split())
    assert (left, top) == (0, 0)
    return width, height


def assert_within(svg: Element) -> None:
    """Every line, marker and text, with its whole width, lies in the view box."""
    width, height = view_of(svg)
    places: list[tuple[float, float]] = []
    for each in svg.iter():
        if each.tag == SVG + "path":
            x, y = (float(side) for side in each.get("transform", "translate(0,0)")[10:-1].split(","))
            places += [(x + right, y + down) for right, down in places_of(each.attrib["d"])]
        elif each.tag == SVG + "circle":
            x, y, reach = (float(each.attrib[name]) for name in ("cx", "cy", "r"))
            places += [(x - reach, y - reach), (x + reach, y + reach)]
        elif each.tag == SVG + "text":
            x, y, room = float(each.attrib["x"]), float(each.attrib["y"]), width_of(text_of(each), LETTER)
            left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[each.attrib["text-anchor"]] * room
            places += [(left, y - LETTER), (left + room, y)]
        else:
            assert each.tag in (SVG + "svg", SVG + "g", SVG + "title", SVG + "desc")
    assert places
    assert [(x, y) for x, y in places if not (-0.01 <= x <= width + 0.01 and -0.01 <= y <= height + 0.01)] == []


def titles(svg: Element) -> list[str]:
    return [text_of(each).replace("\N{NO-BREAK SPACE}", " ") for each in svg.iter(SVG + "title")]


def texts(svg: Element) -> list[str]:
    return [text_of(each).replace("\N{NO-BREAK SPACE}", " ") for each in svg.iter(SVG + "text")]


def lines(svg: Element) -> list[Element]:
    """The lines of the plot, and their samples in the legend."""
    return [each for each in svg.iter(SVG + "path") if each.get("stroke-width") == "2"]


@given(plots(st.just("a name")))
def test_every_plot_of_finite_points_is_drawn_within_its_bounds(plot: Plot) -> None:
    text = plot_svg(plot)

    assert_within(fromstring(text))
    assert "nan" not in text.casefold().replace("a name", "")
    assert "inf" not in text.casefold()


@given(plots(st.text(st.characters(), max_size=200)))
def test_every_name_is_carried_and_fits(plot: Plot) -> None:
    assert_within(drawn(plot))


@pytest.mark.parametrize(
    "plot", [plot for each in example_report().experiments for plot in each.plots], ids=lambda p: p.title
)
def test_the_plots_of_a_study_are_drawn_within_their_bounds(plot: Plot) -> None:
    assert_within(drawn(plot))


@pytest.mark.parametrize("letter", ["W", "i", "Ŵ", "中", "Ж", "\x01", "\ud800", "e\u0301", "🌷", "word "], ids=ascii)
def test_names_of_any_length_fit(letter: str) -> None:
    name = letter * 200
    series = tuple(replace(each, name=name) for each in (*PLOT.series, Series(name, ())))

    svg = drawn(replace(PLOT, title=name, x_label=name, y_label=name, series=series))

    assert_within(svg)
    assert sum(text.endswith("…") for text in texts(svg)) == 6  # both axes, and the legend


def test_hostile_names_are_text() -> None:
    series = tuple(replace(each, name=HOSTILE) for each in PLOT.series)
    svg = drawn(replace(PLOT, title=HOSTILE, x_label=HOSTILE, y_label=HOSTILE, series=series))

    assert list(svg.iter(SVG + "script")) == []
    assert titles(svg)[0] == "</title><script>alert(1)</script>\"'&amp;\ufffd\ufffd\ufffd]]>"


def test_a_point_tells_its_series_x_and_value() -> None:
    told = titles(drawn(PLOT))

    assert "composed\nshards: 10\naccuracy: 90.9 %" in told
    assert "composed (paper)\nshards: 50\naccuracy: 97.7 %" in told
    assert "alone\nshards: 2\naccuracy: 91.7 % (90.0 % to 93.0 %)" in told


def test_a_screen_reader_hears_the_title_and_where_the_lines_go() -> None:
    svg = drawn(PLOT)

    assert svg.attrib["role"] == "img"
    assert [each.tag for each in svg][:2] == [SVG + "title", SVG + "desc"]
    assert svg[0].text == "Accuracy over shards"
    said = text_of(svg[1]).replace("\N{NO-BREAK SPACE}", " ")
    assert said == (
        "accuracy over shards. composed: 95.4 % at 1 to 90.9 % at 10. "
        "composed (paper): 99.1 % at 1 to 97.7 % at 50. alone: 95.0 % at 1 to 91.7 % at 2."
    )


def test_points_stand_where_their_numbers_say() -> None:
    series = (Series("a", ((0, 0.0), (5, 0.5), (10, 1.0))),)
    svg = drawn(Plot("", "", "", "share", series))

    (x0, y0), (x1, y1), (x2, y2) = places_of(lines(svg)[0].attrib["d"])
    assert x1 - x0 == pytest.approx(x2 - x1)
    assert y0 - y1 == pytest.approx(y1 - y2)
    assert x0 < x1 < x2
    assert y0 > y1 > y2
    whole = next(each for each in svg.iter(SVG + "text") if text_of(each).startswith("100"))
    assert float(whole.attrib["y"]) == pytest.approx(y2, abs=LETTER / 2)


def test_the_papers_lines_are_dashed_and_hollow_and_no_others_are() -> None:
    svg = drawn(PLOT)

    dashed = [each.get("stroke-dasharray") is not None for each in lines(svg)]
    assert dashed == [False, True, False] * 2  # lines, then their samples
    hollow = [each for each in svg.iter(SVG + "path") if each.get("class") == "hollow"]
    assert len(hollow) == len(PLOT.series[1].points) + 1
    assert {each.attrib["fill"] for each in hollow} == {"#ffffff"}


def test_a_series_and_the_papers_of_the_same_name_share_colour_and_marker() -> None:
    groups = [each for each in drawn(PLOT) if (each.get("class") or "").startswith("series-") and len(each) > 1]
    colours = [each.attrib["color"] for each in groups]
    markers = [each[1].findall(SVG + "path")[0].attrib["d"] for each in groups]

    assert colours[0] == colours[1] != colours[2]
    assert markers[0] == markers[1] != markers[2]


@pytest.mark.parametrize("name", ["series {}", "namesake"])
def test_thirty_series_all_look_different(name: str) -> None:
    series = tuple(Series(name.format(n), ((1, n), (2, n))) for n in range(30))

    groups = [each for each in drawn(Plot("", "", "", "count", series)) if "series-" in (each.get("class") or "")]

    looks = {(each.attrib["color"], each[1].findall(SVG + "path")[0].attrib["d"]) for each in groups if len(each) > 1}
    assert len(looks) == 30


def test_the_legend_stands_below_the_lines_and_names_every_series() -> None:
    series = tuple(Series(f"the accuracy of data set {n}", ((1, 0.0), (2, n / 10))) for n in range(9))
    svg = drawn(Plot("", "shards", "accuracy", "share", series))

    names = [each for each in svg.iter(SVG + "text") if "data set" in text_of(each)]
    lowest = max(y for each in lines(svg)[:9] for _, y in places_of(each.attrib["d"]))
    assert [text_of(each) for each in names] == [each.name for each in series]
    assert all(float(each.attrib["y"]) - LETTER > lowest for each in names)


def test_no_two_entries_of_the_legend_cover_each_other() -> None:
    series = tuple(Series("x" * (3 + n * 7 % 40), ((1, 0.0),), from_paper=n % 2 == 1) for n in range(12))
    svg = drawn(Plot("", "shards", "accuracy", "share", series))

    entries = [
        (float(each.attrib["y"]), float(each.attrib["x"]), width_of(text_of(each), LETTER))
        for each in svg.iter(SVG + "text")
        if text_of(each).startswith("xx")
    ]
    assert len(entries) == 12
    for (row, x, width), (other_row, other_x, _) in pairwise(entries):
        assert other_row > row or other_x > x + width


def test_a_band_goes_from_the_lowest_to_the_highest() -> None:
    svg = drawn(replace(PLOT, series=PLOT.series[2:]))

    band = next(each for each in svg.iter(SVG + "path") if each.get("fill-opacity"))
    line = list(places_of(lines(svg)[0].attrib["d"]))
    outline = list(places_of(band.attrib["d"]))
    assert [x for x, _ in outline[:4]] == [line[0][0], line[1][0], line[1][0], line[0][0]]
    assert outline[0][1] < line[0][1] < outline[3][1]


def test_a_log_axis_names_the_points_own_numbers_and_says_what_it_is() -> None:
    shown = texts(drawn(PLOT))

    assert [text for text in shown if text.isdigit()] == ["1", "2", "10", "50"]
    assert "shards (log scale)" in shown


def test_where_zero_is_a_point_a_log_axis_is_a_plain_one() -> None:
    series = (Series("a", ((0, 0.1), (1, 0.2))),)

    assert "shards" in texts(drawn(replace(PLOT, series=series)))


def test_ticks_that_would_cover_each_other_are_left_out() -> None:
    series = (Series("a", tuple((n, 0.5) for n in range(1, 200))),)

    shown = [int(text) for text in texts(drawn(replace(PLOT, series=series))) if text.isdigit()]

    assert shown == sorted(shown)
    assert 1 < len(shown) < 20
    assert (shown[0], shown[-1]) == (1, 199)


def test_one_point_alone_is_drawn() -> None:
    svg = drawn(replace(PLOT, series=(Series("a", ((5, 0.5),), low=(0.4,), high=(0.6,)),)))

    assert_within(svg)
    assert "a\nshards: 5\naccuracy: 50.0 % (40.0 % to 60.0 %)" in titles(svg)


def test_an_empty_series_is_named_as_such_beside_others() -> None:
    svg = drawn(replace(PLOT, series=(*PLOT.series, Series("heads", ()))))

    assert "heads (nothing was measured)" in texts(svg)
    assert "nothing was measured" not in texts(svg)


@pytest.mark.parametrize("series", [(), (Series("heads", ()),)], ids=["no series", "no points"])
def test_a_plot_of_nothing_says_so(series: tuple[Series, ...]) -> None:
    svg = drawn(replace(PLOT, series=series))

    assert [text for text in texts(svg) if "heads" not in text] == ["accuracy", "shards", "nothing was measured"]


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
def test_a_number_that_is_none_is_refused_by_name(series: Series) -> None:
    with pytest.raises(ReportInvalid, match="the series 'a' of the plot 'Accuracy over shards' holds"):
        plot_svg(replace(PLOT, series=(series,)))


@pytest.mark.parametrize(
    ("low", "high"), [((0.1, 0.2), ()), ((), (0.1, 0.2)), ((0.1,), (0.2,)), ((0.1, 0.2), (0.3,))], ids=str
)
def test_a_band_that_does_not_fit_its_points_is_refused(low: tuple[float, ...], high: tuple[float, ...]) -> None:
    with pytest.raises(ReportInvalid, match="for 2 points: give both for each point, or none"):
        plot_svg(replace(PLOT, series=(Series("a", ((1, 0.5), (2, 0.5)), low=low, high=high),)))
