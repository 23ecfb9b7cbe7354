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
ROLES = (*USERS, None, GARBAGE)  # the last two have no valid token


@dataclass(frozen=True)
class Case:
    """One route: a request that would succeed, and the status for each role, in the order of USERS."""

    route: str
    prepare: Prepare
    statuses: tuple[int, ...]


def _plain(path: str, **options: Any) -> Prepare:
    return lambda _: (path, options)


def _source(path: str = "", **options: Any) -> Prepare:
    return lambda w: (f"/sources/{w.add_source(samples=2)}{path}", options)


def _body(path: str, body: Callable[[Deployment], dict[str, Any]]) -> Prepare:
    return lambda w: (path, {"json": body(w)})


def _created(path: str, body: Callable[[Deployment], dict[str, Any]]) -> Prepare:
    """Prepare a request to what an admin has created with this body."""
    return lambda w: (f"{path}/{w.request('admin', 'POST', path, json=body(w)).json()['id']}", {})


def _user(name: str, path: str = "") -> Prepare:
    return lambda w: (f"/users/{w.users[name]}{path}", {})


def _new_user(path: str = "", *, is_group: bool = False, **options: Any) -> Prepare:
    return lambda w: (f"/users/{w.add_user(is_group=is_group)}{path}", options)


def _shard(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    source = deployment.add_source(samples=2)
    return f"/sources/{source}/shards/{deployment.shard_of(source)}", {}


def _sample(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    source = deployment.add_source(samples=2)
    return f"/sources/{source}/samples/{deployment.sample_of(source)}", {}


def _new_erasure(deployment: Deployment) -> str:
    return str(deployment.request("owner", "DELETE", f"/sources/{deployment.add_source()}").json()["id"])


def _member(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    return f"/users/{deployment.add_user(is_group=True)}/members/{deployment.add_user()}", {}


def _existing_member(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    path, options = _member(deployment)
    deployment.request("admin", "PUT", path)
    return path, options


def _subject(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    binding = {"subject": deployment.new_name(), "issuer": "https://id.example"}
    return f"/users/{deployment.add_user()}/subject", {"json": binding}


def _bound_subject(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    path, options = _subject(deployment)
    deployment.request("admin", "PUT", path, **options)
    return path, {}


def _grant(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    return "/grants", {"json": {"user": str(deployment.users["stranger"]), "source": str(deployment.add_source())}}


def _existing_grant(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    source = deployment.add_source()
    return "/grants", {"params": {"user": str(deployment.users["user"]), "source": str(source), "right": "use"}}


def _upload(deployment: Deployment) -> tuple[str, dict[str, Any]]:
    return "/sources", {"params": {"task": TASK, "name": deployment.new_name("upload")}, **ARCHIVE}


ARCHIVE = {"content": archive(), "headers": {"Content-Type": "application/zip"}}
PROMPT = {"content": prompt_bytes(), "headers": {"Content-Type": "application/octet-stream"}}
PREDICT = {"files": {"image": picture()}, "data": {"task": TASK}}
INFER = {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "data": ["bm90IGEgcGljdHVyZQ=="]}]}
MODEL = f"/v2/models/{TASK}"
# The status for each role: admin, owner, user, manager, forgetter, stranger
OPEN = (200,) * len(ROLES)  # needs no token
ALL_200 = (200,) * len(USERS)
ADMIN_200, ADMIN_201, ADMIN_204 = ((status, 403, 403, 403, 403, 403) for status in (200, 201, 204))
USE = (409, 200, 200, 409, 409, 409)
INFER_USE = (409, 422, 422, 409, 409, 409)
MANAGE_200, MANAGE_202 = ((status, status, 403, status, 403, 404) for status in (200, 202))
UNTIL_COMPLETE = -1  # 409 until the erasure is complete, then 200
FORGET = (202, 202, 403, 403, 202, 404)
OWNER = (200, 200, 404, 404, 404, 404)

CASES = [
    Case("POST /predict", _plain("/predict", **PREDICT), USE),
    Case("GET /tasks", _plain("/tasks"), ALL_200),
    Case("POST /tasks", _body("/tasks", lambda w: {"name": w.new_name(), "backbone": "vit"}), ADMIN_201),
    Case("GET /tasks/{task}", _plain(f"/tasks/{TASK}"), ALL_200),
    Case("DELETE /tasks/{task_id}", _created("/tasks", lambda w: {"name": w.new_name(), "backbone": "vit"}), ADMIN_204),
    Case("GET /sources", _plain("/sources"), ALL_200),
    Case("POST /sources", _upload, (202, 202, 403, 403, 403, 403)),
    Case("GET /sources/{source_id}", _source(), (200, 200, 200, 200, 200, 404)),
    Case("GET /sources/{source_id}/samples", _source("/samples"), (200, 200, 403, 200, 200, 404)),
    Case("POST /sources/{source_id}/samples", _source("/samples", **ARCHIVE), MANAGE_202),
    Case("PUT /sources/{source_id}/prompt", _source("/prompt", **PROMPT), MANAGE_200),
    Case("POST /sources/{source_id}/cancel", _source("/cancel"), MANAGE_200),
    Case("POST /sources/{source_id}/resume", _source("/resume"), MANAGE_200),
    Case("DELETE /sources/{source_id}", _source(), FORGET),
    Case("DELETE /sources/{source_id}/shards/{shard_id}", _shard, FORGET),
    Case("DELETE /sources/{source_id}/samples/{digest}", _sample, FORGET),
    Case("GET /erasures", _plain("/erasures"), ALL_200),
    Case("GET /erasures/{erasure_id}", lambda w: (f"/erasures/{_new_erasure(w)}", {}), OWNER),
    Case(
        "GET /erasures/{erasure_id}/verification",
        lambda w: (f"/erasures/{_new_erasure(w)}/verification", {}),
        (UNTIL_COMPLETE, UNTIL_COMPLETE, 404, 404, 404, 404),
    ),
    Case("GET /users", _plain("/users"), ALL_200),
    Case("POST /users", _body("/users", lambda w: {"name": w.new_name()}), ADMIN_201),
    Case("GET /users/me", _plain("/users/me"), ALL_200),
    Case("GET /users/{user_id}", _user("owner"), OWNER),
    Case("DELETE /users/{user_id}", _new_user(), ADMIN_204),
    Case("GET /users/{user_id}/groups", _user("user", "/groups"), (200, 404, 200, 404, 404, 404)),
    Case("GET /users/{group_id}/members", _new_user("/members", is_group=True), (200, 404, 404, 404, 404, 404)),
    Case("PUT /users/{group_id}/members/{user_id}", _member, ADMIN_204),
    Case("DELETE /users/{group_id}/members/{user_id}", _existing_member, ADMIN_204),
    Case("PUT /users/{user_id}/subject", _subject, ADMIN_200),
    Case("DELETE /users/{user_id}/subject", _bound_subject, ADMIN_204),
    Case("GET /users/{user_id}/quota", _user("owner", "/quota"), OWNER),
    Case("PUT /users/{user_id}/quota", _new_user("/quota", json={"quota_bytes": 5}), ADMIN_200),
    Case("GET /tokens", _plain("/tokens"), ALL_200),
    Case("POST /tokens", _body("/tokens", lambda w: {"user": str(w.add_user())}), ADMIN_201),
    Case(
        "DELETE /tokens/{token_id}",
        _created("/tokens", lambda w: {"user": str(w.add_user())}),
        (204, 404, 404, 404, 404, 404),
    ),
    Case("GET /grants", _plain("/grants"), ALL_200),
    Case("POST /grants", _grant, (201, 201, 403, 201, 403, 404)),
    Case("DELETE /grants", _existing_grant, (204, 204, 403, 204, 403, 404)),
    Case("GET /releases", _plain("/releases"), ALL_200),
    Case("POST /releases", _body("/releases", lambda w: {"task": TASK, "name": w.new_name()}), ADMIN_201),
    Case("GET /releases/{release_id}", _created("/releases", lambda w: {"task": TASK, "name": w.new_name()}), ALL_200),
    Case(
        "DELETE /releases/{release_id}",
        _created("/releases", lambda w: {"task": TASK, "name": w.new_name()}),
        ADMIN_204,
    ),
    Case("GET /healthz", _plain("/healthz"), OPEN),
    Case("GET /readyz", _plain("/readyz"), OPEN),
    Case("GET /metrics", _plain("/metrics"), ADMIN_200),
    Case("GET /v2", _plain("/v2"), ALL_200),
    Case("GET /v2/health/live", _plain("/v2/health/live"), OPEN),
    Case("GET /v2/health/ready", _plain("/v2/health/ready"), OPEN),
    Case("GET /v2/models/{task}", _plain(MODEL), ALL_200),
    Case("GET /v2/models/{task}/ready", _plain(f"{MODEL}/ready"), USE),
    Case("POST /v2/models/{task}/infer", _plain(f"{MODEL}/infer", json=INFER), INFER_USE),
    Case("GET /v2/models/{task}/versions/1", _plain(f"{MODEL}/versions/1"), ALL_200),
    Case("GET /v2/models/{task}/versions/1/ready", _plain(f"{MODEL}/versions/1/ready"), USE),
    Case("POST /v2/models/{task}/versions/1/infer", _plain(f"{MODEL}/versions/1/infer", json=INFER), INFER_USE),
    Case("GET /", _plain("/"), OPEN),
    Case("GET /console/{name:path}", _plain("/console/main.js"), OPEN),
    Case("GET /openapi.json", _plain("/openapi.json"), ALL_200),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.route)
def test_a_route_gives_each_role_its_status(case: Case, deployment: Deployment) -> None:
    method = case.route.partition(" ")[0]
    path, options = case.prepare(deployment)
    for who, status in zip(ROLES, (*case.statuses, 401, 401), strict=False):
        answer = deployment.request(who, method, path, **options)

        expected = (200, 409) if status == UNTIL_COMPLETE else (status,)
        assert answer.status_code in expected, f"{who}: {answer.text}"
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


HIDDEN: dict[str, Callable[[Deployment], object]] = {
    "/sources/{}": Deployment.add_source,
    "/sources/{}/samples": Deployment.add_source,
    "/erasures/{}": _new_erasure,
    "/users/{}": Deployment.add_user,
    "/users/{}/groups": Deployment.add_user,
}


@pytest.mark.parametrize("path", HIDDEN)
def test_missing_and_invisible_resources_give_the_same_response(path: str, deployment: Deployment) -> None:
    hidden = HIDDEN[path](deployment)
    missing = uuid4()

    invisible = deployment.request("stranger", "GET", path.format(hidden)).json()
    absent = deployment.request("stranger", "GET", path.format(missing)).json()

    for problem in (invisible, absent):
        del problem["request_id"]
    assert invisible == {**absent, "detail": absent["detail"].replace(str(missing), str(hidden))}
