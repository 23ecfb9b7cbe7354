"""Signing in and out, and what each role finds on the page."""

import pytest
from playwright.sync_api import expect

from tests.service.console.browser import Reader
from tests.service.deployment import GARBAGE


def test_a_token_signs_in_and_says_who_one_is(reader: Reader) -> None:
    page = reader.sign_in("user")

    expect(page.locator("#who summary")).to_contain_text("user")
    expect(page.locator("#who summary")).to_contain_text("predictor")
    expect(reader.row(reader.deployment.source)).to_contain_text("ready")


def test_a_wrong_token_is_told_in_the_services_own_words(reader: Reader) -> None:
    told = reader.deployment.request(GARBAGE, "GET", "/users/me").json()
    page = reader.open()

    page.get_by_label("Your token").fill(GARBAGE)
    page.get_by_role("button", name="Sign in").click()

    problem = page.get_by_role("alert")
    expect(problem).to_contain_text(told["title"])
    expect(problem).to_contain_text(told["detail"], ignore_case=True)
    assert page.evaluate("sessionStorage.length") == 0


def test_the_token_stays_in_the_tab_and_leaves_with_its_reader(reader: Reader) -> None:
    page = reader.sign_in("user")
    assert page.evaluate("Object.values(sessionStorage)") == [reader.deployment.tokens["user"]]
    assert page.evaluate("localStorage.length + document.cookie.length") == 0
    page.reload()
    expect(reader.row(reader.deployment.source)).to_be_visible()

    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_label("Your token")).to_be_focused()
    expect(reader.row(reader.deployment.source)).to_have_count(0)
    assert page.evaluate("sessionStorage.length") == 0


def test_a_token_that_is_revoked_ends_the_visit(reader: Reader) -> None:
    deployment = reader.deployment
    issued = deployment.request("admin", "POST", "/tokens", json={"user": str(deployment.users["user"])}).json()
    page = reader.sign_in(issued["text"])
    deployment.request("admin", "DELETE", f"/tokens/{issued['id']}")

    reader.ask()

    expect(page.get_by_role("alert")).to_contain_text("token")
    expect(page.get_by_label("Your token")).to_be_visible()


@pytest.mark.parametrize("address", ["/", "/#/administration", "/#/forgetting"])
def test_a_plain_user_sees_no_controls_and_is_refused_when_asking_directly(reader: Reader, address: str) -> None:
    page = reader.sign_in("user", address)
    expect(reader.row(reader.deployment.source)).to_be_visible()

    for name in ("Upload a source", "Make a task", "Make a user", "Pin a release"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("link", name="Administration")).to_have_count(0)
    reader.row(reader.deployment.source).get_by_role("button").click()
    expect(reader.dialog()).to_contain_text("use it for answers")
    expect(reader.dialog().get_by_role("button", name="Forget")).to_have_count(0)
    expect(reader.dialog().get_by_role("button", name="Grant")).to_have_count(0)
    refused = page.evaluate(
        """async (source) => {
            const headers = { Authorization: `Bearer ${sessionStorage["alacarte.token"]}` };
            const json = { ...headers, "Content-Type": "application/json" };
            const answers = [fetch("users", { method: "POST", headers: json, body: '{"name": "intruder"}' }),
                             fetch(`sources/${source}`, { method: "DELETE", headers })];
            return (await Promise.all(answers)).map((answer) => answer.status);
        }""",
        str(reader.deployment.source),
    )
    assert refused == [403, 403]


def test_the_page_carries_no_secret_and_nothing_else_is_open(reader: Reader) -> None:
    answer = reader.deployment.request(None, "GET", "/")

    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    for path in ("/console/files.py", "/console/", "/console/../app.py", "/console/%2e%2e/app.py", "/console/no.js"):
        assert reader.deployment.request(None, "GET", path).status_code == 401, path
        assert reader.deployment.request("admin", "GET", path).status_code == 404, path
