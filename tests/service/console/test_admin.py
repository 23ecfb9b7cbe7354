"""Tasks, users, tokens and releases on the console; and names that try to run as scripts."""

from playwright.sync_api import expect

from registry.access.caller import OPERATOR
from registry.access.grants import grant_right
from registry.catalog.sources import create_source
from registry.catalog.tasks import create_task
from tests.service.console.browser import ConsoleTab
from tests.service.deployment import BACKBONE, SIZE

NAME = "<img src=x onerror=alert('owned')>"  # of a task, which has no slash
HOSTILE = "<img src=x onerror=\"alert('owned')\"><script>alert('owned')</script>"


def create(tab: ConsoleTab, kind: str, button: str = "Create") -> str:
    """Create something of this kind on the admin page, as an admin, and return its name."""
    page = tab.sign_in("admin", "/#/admin")
    name = tab.deployment.new_name(kind)
    page.get_by_role("button", name=f"Create a {kind}").click()
    tab.dialog().get_by_label("Name", exact=True).fill(name)
    tab.dialog().get_by_role("button", name=button, exact=True).click()
    return name


def test_a_user_is_created_and_signs_in_with_the_token_that_is_shown_once(tab: ConsoleTab) -> None:
    page, name = tab.page, create(tab, "user")

    expect(tab.dialog()).to_contain_text(f"Tokens of {name}")
    tab.dialog().get_by_label("Purpose").fill("the phone")
    tab.dialog().get_by_role("button", name="Issue a token").click()

    text = tab.dialog().locator(".secret").inner_text()
    expect(tab.dialog().locator("tbody tr")).to_contain_text("the phone")
    tab.dialog().get_by_role("button", name="Close").click()
    expect(page.get_by_text(text)).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#account summary")).to_contain_text(name)


def test_a_release_is_created_and_shown(tab: ConsoleTab) -> None:
    name = create(tab, "release")

    tab.page.get_by_role("button", name=f"Show the release {name}").click()

    expect(tab.dialog().locator("tbody tr")).not_to_have_count(0)
    expect(tab.dialog()).to_contain_text("prompt")


def test_a_task_is_created_and_deleted(tab: ConsoleTab) -> None:
    name = create(tab, "task", "Create the task")

    remove = tab.page.get_by_role("button", name=f"Delete the task {name}")
    expect(remove).to_be_visible()
    remove.click()
    tab.dialog().get_by_role("button", name="Delete the task").click()
    expect(remove).to_have_count(0)


def test_hostile_names_and_labels_are_shown_as_text_and_run_nothing(tab: ConsoleTab) -> None:
    deployment = tab.deployment
    with deployment.registry.database.write_transaction() as session:
        task = create_task(session, OPERATOR, NAME, backbone=BACKBONE, size=SIZE).id
        source = create_source(session, OPERATOR, task, HOSTILE, deployment.users["owner"]).id
        grant_right(session, OPERATOR, deployment.users["admin"], source, "use")
    deployment.publish(source, labels=(HOSTILE, "cat"))
    page = tab.sign_in("admin")
    page.get_by_label("Task", exact=True).select_option(label=NAME)

    expect(tab.row(source).get_by_role("button")).to_have_text(HOSTILE)
    item = tab.add_picture(3, name="<img src=x onerror=alert(1)>.png")

    assert HOSTILE in tab.scores(item)
    item.locator("summary").click()
    expect(item.locator(".explanation li")).to_contain_text(HOSTILE)
    tab.row(source).get_by_role("button").click()
    expect(tab.dialog().locator(".chip").first).to_have_text(HOSTILE)
    tab.dialog().get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Admin").click()
    expect(page.locator("#page-admin")).to_contain_text(NAME)
    assert page.locator("img[src=x], main script").count() == 0
    deployment.request("admin", "DELETE", f"/sources/{source}")
