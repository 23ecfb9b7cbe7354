"""Every route with every role; a route that is missing in the table fails."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from starlette.routing import Route

from service.app import ROUTES, create_app
from service.settings import ServiceSettings
from tests.service.deployment import GARBAGE, TASK, USERS, Deployment, archive, picture, prompt_bytes

# Prepares a request: its path, and further arguments of httpx.
Prepare = Callable[[Deployment], tuple[str, dict[str, Any]]]
OPEN = "needs no token"


@dataclass(frozen=True)
class Case:
    """One route: a request that would succeed, and the status for each role, in the order of USERS."""

    route: str
    prepare: Prepare
    statuses: tuple[int, ...] | str


def _plain(path: str) -> Prepare:
    return lambda _: (path, {})


def _source(path: str, **options: Any) -> Prepare:
    """Prepare a request to a new source."""
    return lambda deployment: (path.format(source=deployment.add_source(samples=2)), options)


def _body(path: str, body: Callable[[Deployment], dict[str, Any]]) -> Prepare:
    return lambda deployment: (path, {"json": body(deployment)})


def _shard(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    source = deployment.add_source(samples=2)
    return f"/sources/{source}/shards/{deployment.shard_of(source)}", {}


def _sample(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    source = deployment.add_source(samples=2)
    return f"/sources/{source}/samples/{deployment.sample_of(source)}", {}


def _erasure(end: str = "") -> Prepare:
    def prepare(deployment: Deployment) -> tuple[str, dict[str, Any]]:
        erasure = deployment.request("owner", "DELETE", f"/sources/{deployment.add_source()}").json()
        return f"/erasures/{erasure['id']}{end}", {}

    return prepare


def _release(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    created = deployment.request(
        "admin", "POST", "/releases", json={"task": TASK, "name": deployment.new_name("release")}
    ).json()
    return f"/releases/{created['id']}", {}


def _task(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    created = deployment.request(
        "admin", "POST", "/tasks", json={"name": deployment.new_name("task"), "backbone": "vit"}
    ).json()
    return f"/tasks/{created['id']}", {}


def _token(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    created = deployment.request("admin", "POST", "/tokens", json={"user": str(deployment.add_user())}).json()
    return f"/tokens/{created['id']}", {}


def _member(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    group, user = deployment.add_user(is_group=True), deployment.add_user()
    return f"/users/{group}/members/{user}", {}


def _existing_member(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    path, options = _member(deployment)
    deployment.request("admin", "PUT", path)
    return path, options


def _bound_subject(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    path = f"/users/{deployment.add_user()}/subject"
    deployment.request("admin", "PUT", path, json={"subject": deployment.new_name(), "issuer": "https://id.example"})
    return path, {}


def _grant(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    return "/grants", {"json": {"user": str(deployment.users["stranger"]), "source": str(deployment.add_source())}}


def _existing_grant(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    source = deployment.add_source()
    return "/grants", {"params": {"user": str(deployment.users["user"]), "source": str(source), "right": "use"}}


def _upload(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    query = {"task": TASK, "name": deployment.new_name("upload")}
    return "/sources", {"params": query, "content": archive(), "headers": {"Content-Type": "application/zip"}}


PREDICT = {"files": {"image": picture()}, "data": {"task": TASK}}
ZIP = {"headers": {"Content-Type": "application/zip"}}
RAW = {"headers": {"Content-Type": "application/octet-stream"}}
INFER = {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "data": ["bm90IGEgcGljdHVyZQ=="]}]}
ALL_200 = (200,) * len(USERS)
ADMIN_ONLY_204 = (204, 403, 403, 403, 403, 403)

# admin, owner, user, manager, forgetter, stranger
CASES = [
    Case("POST /predict", lambda _: ("/predict", PREDICT), (409, 200, 200, 409, 409, 409)),
    Case("GET /tasks", _plain("/tasks"), ALL_200),
    Case("POST /tasks", _body("/tasks", lambda w: {"name": w.new_name(), "backbone": "vit"}), (201, *(403,) * 5)),
    Case("GET /tasks/{task}", _plain(f"/tasks/{TASK}"), ALL_200),
    Case("DELETE /tasks/{task_id}", _task, ADMIN_ONLY_204),
    Case("GET /sources", _plain("/sources"), ALL_200),
    Case("POST /sources", _upload, (202, 202, 403, 403, 403, 403)),
    Case("GET /sources/{source_id}", _source("/sources/{source}"), (200, 200, 200, 200, 200, 404)),
    Case("GET /sources/{source_id}/samples", _source("/sources/{source}/samples"), (200, 200, 403, 200, 200, 404)),
    Case(
        "POST /sources/{source_id}/samples",
        _source("/sources/{source}/samples", content=archive(), **ZIP),
        (202, 202, 403, 202, 403, 404),
    ),
    Case(
        "PUT /sources/{source_id}/prompt",
        _source("/sources/{source}/prompt", content=prompt_bytes(), **RAW),
        (200, 200, 403, 200, 403, 404),
    ),
    Case("POST /sources/{source_id}/cancel", _source("/sources/{source}/cancel"), (200, 200, 403, 200, 403, 404)),
    Case("POST /sources/{source_id}/resume", _source("/sources/{source}/resume"), (200, 200, 403, 200, 403, 404)),
    Case("DELETE /sources/{source_id}", _source("/sources/{source}"), (202, 202, 403, 403, 202, 404)),
    Case("DELETE /sources/{source_id}/shards/{shard_id}", _shard, (202, 202, 403, 403, 202, 404)),
    Case("DELETE /sources/{source_id}/samples/{digest}", _sample, (202, 202, 403, 403, 202, 404)),
    Case("GET /erasures", _plain("/erasures"), ALL_200),
    Case("GET /erasures/{erasure_id}", _erasure(), (200, 200, 404, 404, 404, 404)),
    Case("GET /erasures/{erasure_id}/verification", _erasure("/verification"), (-1, -1, 404, 404, 404, 404)),
    Case("GET /users", _plain("/users"), ALL_200),
    Case("POST /users", _body("/users", lambda w: {"name": w.new_name()}), (201, *(403,) * 5)),
    Case("GET /users/me", _plain("/users/me"), ALL_200),
    Case("GET /users/{user_id}", lambda w: (f"/users/{w.users['owner']}", {}), (200, 200, 404, 404, 404, 404)),
    Case("DELETE /users/{user_id}", lambda w: (f"/users/{w.add_user()}", {}), ADMIN_ONLY_204),
    Case(
        "GET /users/{user_id}/groups",
        lambda w: (f"/users/{w.users['user']}/groups", {}),
        (200, 404, 200, 404, 404, 404),
    ),
    Case(
        "GET /users/{group_id}/members",
        lambda w: (f"/users/{w.add_user(is_group=True)}/members", {}),
        (200, 404, 404, 404, 404, 404),
    ),
    Case("PUT /users/{group_id}/members/{user_id}", _member, ADMIN_ONLY_204),
    Case("DELETE /users/{group_id}/members/{user_id}", _existing_member, ADMIN_ONLY_204),
    Case(
        "PUT /users/{user_id}/subject",
        lambda w: (f"/users/{w.add_user()}/subject", {"json": {"subject": w.new_name(), "issuer": "https://id.example"}}),
        (200, *(403,) * 5),
    ),
    Case("DELETE /users/{user_id}/subject", _bound_subject, ADMIN_ONLY_204),
    Case(
        "GET /users/{user_id}/quota", lambda w: (f"/users/{w.users['owner']}/quota", {}), (200, 200, 404, 404, 404, 404)
    ),
    Case(
        "PUT /users/{user_id}/quota",
        lambda w: (f"/users/{w.add_user()}/quota", {"json": {"quota_bytes": 5}}),
        (200, *(403,) * 5),
    ),
    Case("GET /tokens", _plain("/tokens"), ALL_200),
    Case("POST /tokens", _body("/tokens", lambda w: {"user": str(w.add_user())}), (201, *(403,) * 5)),
    Case("DELETE /tokens/{token_id}", _token, (204, *(404,) * 5)),
    Case("GET /grants", _plain("/grants"), ALL_200),
    Case("POST /grants", _grant, (201, 201, 403, 201, 403, 404)),
    Case("DELETE /grants", _existing_grant, (204, 204, 403, 204, 403, 404)),
    Case("GET /releases", _plain("/releases"), ALL_200),
    Case("POST /releases", _body("/releases", lambda w: {"task": TASK, "name": w.new_name()}), (201, *(403,) * 5)),
    Case("GET /releases/{release_id}", _release, ALL_200),
    Case("DELETE /releases/{release_id}", _release, ADMIN_ONLY_204),
    Case("GET /healthz", _plain("/healthz"), OPEN),
    Case("GET /readyz", _plain("/readyz"), OPEN),
    Case("GET /metrics", _plain("/metrics"), (200, *(403,) * 5)),
    Case("GET /v2", _plain("/v2"), ALL_200),
    Case("GET /v2/health/live", _plain("/v2/health/live"), OPEN),
    Case("GET /v2/health/ready", _plain("/v2/health/ready"), OPEN),
    Case("GET /v2/models/{task}", _plain(f"/v2/models/{TASK}"), ALL_200),
    Case("GET /v2/models/{task}/ready", _plain(f"/v2/models/{TASK}/ready"), (409, 200, 200, 409, 409, 409)),
    Case(
        "POST /v2/models/{task}/infer",
        lambda _: (f"/v2/models/{TASK}/infer", {"json": INFER}),
        (409, 422, 422, 409, 409, 409),
    ),
    Case("GET /v2/models/{task}/versions/1", _plain(f"/v2/models/{TASK}/versions/1"), ALL_200),
    Case(
        "GET /v2/models/{task}/versions/1/ready",
        _plain(f"/v2/models/{TASK}/versions/1/ready"),
        (409, 200, 200, 409, 409, 409),
    ),
    Case(
        "POST /v2/models/{task}/versions/1/infer",
        lambda _: (f"/v2/models/{TASK}/versions/1/infer", {"json": INFER}),
        (409, 422, 422, 409, 409, 409),
    ),
    Case("GET /", _plain("/"), OPEN),
    Case("GET /console/{name:path}", _plain("/console/main.js"), OPEN),
    Case("GET /openapi.json", _plain("/openapi.json"), ALL_200),
]  # fmt: skip


ROLES: dict[str, str | None] = {**{who: who for who in USERS}, "nobody": None, "garbage": GARBAGE}


def expected(case: Case, who: str) -> tuple[int, ...]:
    if isinstance(case.statuses, str):
        return (200,)
    if who not in USERS:
        return (401,)
    status = case.statuses[USERS.index(who)]
    return (200, 409) if status == -1 else (status,)  # -1: 409 until the erasure is complete


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.route)
def test_a_route_gives_each_role_its_status(case: Case, deployment: Deployment) -> None:
    method = case.route.partition(" ")[0]
    path, options = case.prepare(deployment)
    for who, token in ROLES.items():
        answer = deployment.request(token, method, path, **options)

        assert answer.status_code in expected(case, who), f"{who}: {answer.text}"
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["status"] == answer.status_code
        elif method != "GET":
            path, options = case.prepare(deployment)  # the request may have removed what it was prepared with
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"].startswith("Bearer")


def test_every_route_is_in_the_table() -> None:
    own = [route for route in create_app(ServiceSettings()).routes if isinstance(route, Route)]
    included = [route for module in ROUTES for route in module.router.routes]
    served = {
        f"{method} {route.path}"
        for route in (*own, *included)
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }

    assert served == {case.route for case in CASES}


HIDDEN_PATHS = ["/sources/{}", "/sources/{}/samples", "/erasures/{}", "/users/{}", "/users/{}/groups"]


@pytest.mark.parametrize("path", HIDDEN_PATHS)
def test_missing_and_invisible_resources_give_the_same_response(path: str, deployment: Deployment) -> None:
    hidden = {
        "/erasures/{}": lambda: deployment.request("owner", "DELETE", f"/sources/{deployment.add_source()}").json()[
            "id"
        ],
        "/users/{}": deployment.add_user,
        "/users/{}/groups": deployment.add_user,
    }.get(path, deployment.add_source)()
    missing = uuid4()

    invisible = deployment.request("stranger", "GET", path.format(hidden)).json()
    absent = deployment.request("stranger", "GET", path.format(missing)).json()

    for problem in (invisible, absent):
        del problem["request_id"]
    assert invisible == {**absent, "detail": absent["detail"].replace(str(missing), str(hidden))}
