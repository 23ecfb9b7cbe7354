"""Every call in API.md exists."""

import re
from pathlib import Path

from starlette.routing import Match

from service.app import ROUTES

PAGE = (Path(__file__).parents[3] / "docs" / "API.md").read_text(encoding="utf-8")
CALL = re.compile(r"^    \$ curl -s (?P<options>.*?)\"?\$URL(?P<path>/[^\s?\"]+)", re.MULTILINE)


def method_of(options: str) -> str:
    if "-X DELETE" in options:
        return "DELETE"
    return "POST" if re.search(r"(^| )(-F|-d|--data-binary) ", options) else "GET"


def test_every_call_of_the_page_has_a_route() -> None:
    calls = CALL.findall(PAGE)
    routes = [route for module in ROUTES for route in module.router.routes]

    assert len(calls) > 10
    for options, path in calls:
        scope = {"type": "http", "path": path, "method": method_of(options), "headers": []}
        assert any(route.matches(scope)[0] is Match.FULL for route in routes), f"{scope['method']} {path}"


def test_the_page_shows_no_complete_token() -> None:
    assert not re.search(r"alc_[a-z2-7]{12}_[\w-]{10}", PAGE)
