"""Match a request to its route before it is routed, for the body limit and the labels of metrics."""

from collections.abc import Iterable
from dataclasses import dataclass

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route

from service.http.media_types import JSON

PREDICT_PATHS = frozenset({"/predict", "/v2/models/{task}/infer", "/v2/models/{task}/versions/1/infer"})
UNMATCHED = "unmatched"  # instead of unknown paths, which would make unbounded labels


@dataclass(frozen=True)
class MatchedRoute:
    """The path template of a request's route, and what the route accepts."""

    path: str = UNMATCHED
    methods: tuple[str, ...] = ()  # of all routes with this path
    media_types: tuple[str, ...] = ()  # empty if the route reads no body
    has_method: bool = False  # whether the request's method is one of them


class RouteTable:
    """All routes with the content types that they declare in OpenAPI."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [(route, _declared_media_types(route)) for route in routes if isinstance(route, Route)]

    def match(self, method: str, path: str) -> MatchedRoute:
        """Return the route of the path and method; without the method, what the path's routes have in common."""
        matching = [(route, media_types) for route, media_types in self._routes if route.path_regex.match(path)]
        if not matching:
            return MatchedRoute()
        methods = {name for route, _ in matching for name in route.methods or ()}
        if "GET" in methods:
            methods.add("HEAD")  # answered as GET
        for route, media_types in matching:
            if method in (route.methods or ()):
                return MatchedRoute(route.path, tuple(sorted(methods)), media_types, has_method=True)
        return MatchedRoute(matching[0][0].path, tuple(sorted(methods)))


def _declared_media_types(route: Route) -> tuple[str, ...]:
    if not isinstance(route, APIRoute):
        return ()
    by_hand = (route.openapi_extra or {}).get("requestBody", {}).get("content", {})
    return tuple(by_hand) or (() if route.body_field is None else (JSON,))
