"""The colours of series can be told apart by every kind of eye, by day and by night, and stand out from the page."""

import re
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from trainer.study.report.page import STYLES
from trainer.study.report.svg import COLOURS

Colour = NDArray[np.float64]  # (3,): linear red, green and blue

# How eyes without one kind of cone see (Machado, Oliveira and Fernandes, 2009), in linear colours.
EYES = {
    "all cones": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])

CSS = STYLES.read_text("utf-8")
NIGHT = tuple(re.findall(r"\.series-\d \{ color: (#[0-9a-f]{6}); \}", CSS))
CARDS = re.findall(r"--card: (#[0-9a-f]{6});", CSS)
PALETTES = {"day": (COLOURS, CARDS[0]), "night": (NIGHT, CARDS[1])}


def colour(text: str) -> Colour:
    shares = np.array([int(text[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(seen: Colour) -> Colour:
    """Where a colour stands in a space in which distances are about as large as they look."""
    xyz = TO_XYZ @ np.clip(seen, 0, 1) / WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    """As the accessibility guidelines have it, from 1 to 21."""
    light, dark = sorted((float(TO_XYZ[1] @ colour(each)) for each in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("time", PALETTES)
def test_no_two_colours_look_alike(time: str, eye: str) -> None:
    colours, _ = PALETTES[time]
    seen = [lab(EYES[eye] @ colour(each)) for each in colours]

    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 20


@pytest.mark.parametrize("time", PALETTES)
def test_every_colour_stands_out_from_the_page(time: str) -> None:
    colours, card = PALETTES[time]

    assert min(contrast(each, card) for each in colours) > 3


def test_the_night_has_as_many_colours_as_the_day() -> None:
    assert len(NIGHT) == len(COLOURS)
