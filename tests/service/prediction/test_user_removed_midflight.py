"""A user who is removed while their body is received gets 401 from every route."""

import httpx
import pytest

from registry.access.caller import OPERATOR
from registry.access.tokens import issue_token
from registry.access.users import create_user, remove_user
from tests.service.deployment import Deployment
from tests.service.routes.test_roles import CASES, Case
from tests.service.routes.test_uploads import connection

BODILESS = ("/cancel", "/resume", "/members/{user_id}")
WITH_BODY = [case for case in CASES if case.route.startswith(("POST", "PUT")) and not case.route.endswith(BODILESS)]


@pytest.mark.parametrize("case", WITH_BODY, ids=lambda case: case.route)
def test_an_admin_who_is_removed_while_the_body_is_received_gets_401(case: Case, deployment: Deployment) -> None:
    with deployment.registry.database.write_transaction() as session:
        admin = create_user(session, OPERATOR, deployment.new_name("admin"), "admin").id
        token = issue_token(session, OPERATOR, admin).text
    path, options = case.prepare(deployment)
    # The server sends 100 when the service reads the body: by then the token was authenticated.
    headers = {"Authorization": f"Bearer {token}", "Expect": "100-continue", "Connection": "close"}
    options = {**options, "headers": headers | options.get("headers", {})}
    request = httpx.Request(case.route.partition(" ")[0], deployment.url + path, **options)
    body = request.read()
    head = [f"{request.method} {request.url.raw_path.decode()} HTTP/1.1"]
    head += [f"{name}: {value}" for name, value in request.headers.items()]
    with connection(deployment) as sock:
        sock.sendall("\r\n".join([*head, "", ""]).encode())
        assert b" 100 " in sock.recv(4096)
        with deployment.registry.database.write_transaction() as session:
            remove_user(session, OPERATOR, admin)

        sock.sendall(body)
        response = b"".join(iter(lambda: sock.recv(4096), b""))

    assert b" 401 " in response.splitlines()[0], response
