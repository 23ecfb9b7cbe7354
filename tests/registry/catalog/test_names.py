"""Names may have any script, are normalised, and never look like an id or contain control characters."""

import unicodedata
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.catalog.names import MAX_LENGTH, parse_name_or_id, validate_name
from registry.errors import Invalid, NotFound
from registry.ids import parse_id

GOOD = ["a", "Ana", "花の庭", "قطة", "Ζωή", "x" * MAX_LENGTH, "a  b", "👩‍🔬", "'; DROP TABLE users; --", "0" * 32]
BAD = {
    "empty": "",
    "only a space": " ",
    "a space before": " a",
    "a space after": "a ",
    "a line break": "a\nb",
    "a NUL": "a\0b",
    "a bell": "a\a",
    "a line separator": "a\u2028b",
    "a lone surrogate": "a\ud800",
    "a turn of direction": "abc\u202etxt",
    "too long": "x" * (MAX_LENGTH + 1),
    "much too long": "x" * 1_000_000,
    "an id": str(uuid4()),
    "an id in capitals": str(uuid4()).upper(),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_name_of_any_script_is_kept_as_it_is(name: str) -> None:
    assert validate_name("user", name) == name


@pytest.mark.parametrize("why", BAD)
def test_a_bad_name_is_refused_in_one_line(why: str) -> None:
    with pytest.raises(Invalid) as refusal:
        validate_name("user", BAD[why])

    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("why", [why for why in BAD if not why.startswith("an id")])
def test_nothing_is_found_under_a_name_that_nothing_can_have(why: str) -> None:
    with pytest.raises(NotFound) as refusal:
        parse_name_or_id("user", BAD[why])

    assert len(str(refusal.value)) < 300


def test_two_spellings_of_one_name_are_one_name() -> None:
    assert validate_name("user", "Zoe\u0308") == validate_name("user", "Zo\u00eb") == "Zo\u00eb"


def test_a_name_that_only_fits_when_composed_is_kept() -> None:
    apart = unicodedata.normalize("NFD", "각" * MAX_LENGTH)
    assert len(apart) > MAX_LENGTH

    assert validate_name("user", apart) == "각" * MAX_LENGTH


def test_case_tells_names_apart() -> None:
    assert validate_name("user", "ana") != validate_name("user", "Ana")


@given(st.text())
def test_a_kept_name_is_kept_again(text: str) -> None:
    try:
        name = validate_name("user", text)
    except Invalid:
        return

    assert validate_name("user", name) == parse_name_or_id("user", name) == name
    assert parse_id(name) is None
    name.encode()


@given(st.uuids())
def test_an_id_is_read_from_its_text(value: object) -> None:
    assert parse_id(str(value)) == parse_name_or_id("user", str(value)) == value
