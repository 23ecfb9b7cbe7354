"""Where a request goes, known before it is routed: what may be sent there, and what it is measured as."""

from collections.abc import Iterable
from dataclasses import dataclass

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from service.http.multipart import JSON

PREDICT_PATHS = frozenset({"/predict", "/v2/models/{task}/infer", "/v2/models/{task}/versions/1/infer"})
UNMATCHED = "unmatched"  # the route of a path that there is none for: paths of strangers are no label


@dataclass(frozen=True)
class MatchedRoute:
    """A path as its route has it, the methods that it has, and what the request's own method reads there."""

    path: str = UNMATCHED
    methods: tuple[str, ...] = ()
    media_types: tuple[str, ...] = ()  # none where no body is read
    has_method: bool = False


class RouteTable:
    """All routes, as their own descriptions have them."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [(route, _read_by(route)) for route in routes if isinstance(route, Route)]

    def find(self, method: str, path: str) -> MatchedRoute:
        """Where the path leads with this method."""
        there = [(route, read) for route, read in self._routes if route.path_regex.match(path)]
        if not there:
            return MatchedRoute()
        methods = {name for route, _ in there for name in route.methods or ()}
        if "GET" in methods:
            methods.add("HEAD")  # which the edge answers as GET
        for route, read in there:
            if method in (route.methods or ()):
                return MatchedRoute(route.path, tuple(sorted(methods)), read, has_method=True)
        return MatchedRoute(there[0][0].path, tuple(sorted(methods)))


def match_route(scope: Scope) -> MatchedRoute:
    """Where the request goes; found once, at the edge."""
    route_table = scope["app"].state.route_table
    assert isinstance(route_table, RouteTable)
    return route_table.find(scope["method"], scope["path"])


def matched_route(scope: Scope) -> MatchedRoute:
    """Where the request goes, as the edge has found it."""
    address = scope["state"]["address"]
    assert isinstance(address, MatchedRoute)
    return address


def _read_by(route: Route) -> tuple[str, ...]:
    """The content types that the route says it reads."""
    if not isinstance(route, APIRoute):
        return ()
    by_hand = (route.openapi_extra or {}).get("requestBody", {}).get("content", {})
    return tuple(by_hand) or (() if route.body_field is None else (JSON,))
