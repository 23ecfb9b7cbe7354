"""Signing in and out, and what each role sees."""

import pytest
from playwright.sync_api import expect

from tests.service.console.browser import ConsoleTab
from tests.service.deployment import GARBAGE


def test_a_token_signs_in_and_shows_the_user(tab: ConsoleTab) -> None:
    page = tab.sign_in("user")

    expect(page.locator("#account summary")).to_contain_text("user")
    expect(page.locator("#account summary")).to_contain_text("predictor")
    expect(tab.row(tab.deployment.source)).to_contain_text("ready")


def test_a_wrong_token_shows_the_services_message(tab: ConsoleTab) -> None:
    problem_document = tab.deployment.request(GARBAGE, "GET", "/users/me").json()
    page = tab.open()

    page.get_by_label("Token").fill(GARBAGE)
    page.get_by_role("button", name="Sign in").click()

    problem = page.get_by_role("alert")
    expect(problem).to_contain_text(problem_document["title"])
    expect(problem).to_contain_text(problem_document["detail"], ignore_case=True)
    assert page.evaluate("sessionStorage.length") == 0


def test_the_token_stays_in_the_tab_and_is_removed_at_sign_out(tab: ConsoleTab) -> None:
    page = tab.sign_in("user")
    assert page.evaluate("Object.values(sessionStorage)") == [tab.deployment.tokens["user"]]
    assert page.evaluate("localStorage.length + document.cookie.length") == 0
    page.reload()
    expect(tab.row(tab.deployment.source)).to_be_visible()

    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_label("Token")).to_be_focused()
    expect(tab.row(tab.deployment.source)).to_have_count(0)
    assert page.evaluate("sessionStorage.length") == 0


def test_a_revoked_token_signs_out(tab: ConsoleTab) -> None:
    number, token = tab.deployment.issue_token()
    page = tab.sign_in(token)
    tab.deployment.request("admin", "DELETE", f"/tokens/{number}")

    tab.add_picture()

    expect(page.get_by_role("alert")).to_contain_text("token")
    expect(page.get_by_label("Token")).to_be_visible()


@pytest.mark.parametrize("address", ["/", "/#/admin", "/#/erasures"])
def test_a_predictor_sees_no_controls_and_direct_calls_are_refused(tab: ConsoleTab, address: str) -> None:
    page = tab.sign_in("user", address)
    expect(tab.row(tab.deployment.source)).to_be_visible()

    for name in ("Upload a source", "Create a task", "Create a user", "Create a release"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("link", name="Admin")).to_have_count(0)
    tab.row(tab.deployment.source).get_by_role("button").click()
    expect(tab.dialog()).to_contain_text("use it for predictions")
    expect(tab.dialog().get_by_role("button", name="Forget")).to_have_count(0)
    expect(tab.dialog().get_by_role("button", name="Grant")).to_have_count(0)
    refused = page.evaluate(
        """async (source) => {
            const headers = { Authorization: `Bearer ${sessionStorage["alacarte.token"]}` };
            const json = { ...headers, "Content-Type": "application/json" };
            const responses = [fetch("users", { method: "POST", headers: json, body: '{"name": "intruder"}' }),
                             fetch(`sources/${source}`, { method: "DELETE", headers })];
            return (await Promise.all(responses)).map((response) => response.status);
        }""",
        str(tab.deployment.source),
    )
    assert refused == [403, 403]


def test_the_page_is_public_and_no_other_file_is(tab: ConsoleTab) -> None:
    response = tab.deployment.request(None, "GET", "/")

    assert response.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]
    for path in ("/console/files.py", "/console/", "/console/../app.py", "/console/%2e%2e/app.py", "/console/no.js"):
        assert tab.deployment.request(None, "GET", path).status_code == 401, path
        assert tab.deployment.request("admin", "GET", path).status_code == 404, path
