"""Whoever is removed while their request comes in does nothing any more, whichever route it is for."""

import httpx
import pytest

from registry.access.caller import OPERATOR
from registry.access.tokens import issue_token
from registry.access.users import create_user, remove_user
from tests.service.deployment import Deployment
from tests.service.routes.test_roles import CASES, Case
from tests.service.routes.test_uploads import connection

BODILESS = ("/cancel", "/resume", "/members/{user_id}")
WITH_BODY = [
    case for case in CASES if case.route.startswith(("POST", "PUT")) and not case.route.endswith(BODILESS)
]  # fmt: skip


def admin_of(deployment: Deployment) -> httpx.Headers:
    """The headers of an admin who will be gone soon, under the name of `leaving`."""
    with deployment.registry.database.write_transaction() as session:
        leaving = create_user(session, OPERATOR, deployment.new_name("admin"), "admin")
        deployment.users["leaving"] = leaving.id
        token = issue_token(session, OPERATOR, leaving.id).text
    # The server asks for the body once the service reads it: by then it knows who sends it.
    return httpx.Headers({"Authorization": f"Bearer {token}", "Expect": "100-continue", "Connection": "close"})


@pytest.mark.parametrize("case", WITH_BODY, ids=lambda case: case.route)
def test_an_admin_who_is_removed_while_the_body_comes_does_nothing(case: Case, deployment: Deployment) -> None:
    headers = admin_of(deployment)
    path, options = case.prepare(deployment)
    headers.update(options.pop("headers", {}) if "headers" in (options := dict(options)) else {})
    request = httpx.Request(case.route.partition(" ")[0], deployment.url + path, headers=headers, **options)
    body = request.read()
    head = [f"{request.method} {request.url.raw_path.decode()} HTTP/1.1"]
    head += [f"{name}: {value}" for name, value in request.headers.items()]
    with connection(deployment) as wire:
        wire.sendall("\r\n".join([*head, "", ""]).encode())
        assert b" 100 " in wire.recv(4096)
        with deployment.registry.database.write_transaction() as session:
            remove_user(session, OPERATOR, deployment.users["leaving"])

        wire.sendall(body)
        answer = b"".join(iter(lambda: wire.recv(4096), b""))

    assert b" 401 " in answer.splitlines()[0], answer
