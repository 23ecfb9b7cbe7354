"""Tasks, users, tokens and releases on the console; and names that would be scripts if anything let them."""

from playwright.sync_api import expect

from registry.access.caller import OPERATOR
from registry.access.grants import grant_right
from registry.catalog.sources import create_source
from registry.catalog.tasks import create_task
from tests.service.console.browser import Reader
from tests.service.deployment import BACKBONE, SIZE

NAME = "<img src=x onerror=alert('owned')>"  # of a task, which has no slash
HOSTILE = "<img src=x onerror=\"alert('owned')\"><script>alert('owned')</script>"


def test_a_user_is_made_and_signs_in_with_the_token_that_is_shown_once(reader: Reader) -> None:
    page = reader.sign_in("admin", "/#/administration")
    name = reader.deployment.new_name("guest")
    page.get_by_role("button", name="Make a user").click()
    reader.dialog().get_by_label("Name", exact=True).fill(name)
    reader.dialog().get_by_role("button", name="Make", exact=True).click()

    expect(reader.dialog()).to_contain_text(f"Tokens of {name}")
    reader.dialog().get_by_label("What it is for").fill("the phone")
    reader.dialog().get_by_role("button", name="Issue a token").click()

    text = reader.dialog().locator(".secret").inner_text()
    expect(reader.dialog().locator("tbody tr")).to_contain_text("the phone")
    reader.dialog().get_by_role("button", name="Close").click()
    expect(page.get_by_text(text)).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Your token").fill(text)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#who summary")).to_contain_text(name)


def test_the_current_set_is_pinned_and_shown(reader: Reader) -> None:
    page = reader.sign_in("admin", "/#/administration")
    name = reader.deployment.new_name("release")
    page.get_by_role("button", name="Pin a release").click()
    reader.dialog().get_by_label("Name", exact=True).fill(name)
    reader.dialog().get_by_role("button", name="Pin it").click()

    page.get_by_role("button", name=f"Show the release {name}").click()

    expect(reader.dialog().locator("tbody tr")).not_to_have_count(0)
    expect(reader.dialog()).to_contain_text("prompt")


def test_a_task_is_made_and_removed(reader: Reader) -> None:
    page = reader.sign_in("admin", "/#/administration")
    name = reader.deployment.new_name("task")
    page.get_by_role("button", name="Make a task").click()
    reader.dialog().get_by_label("Name", exact=True).fill(name)
    reader.dialog().get_by_role("button", name="Make the task").click()

    remove = page.get_by_role("button", name=f"Remove the task {name}")
    expect(remove).to_be_visible()
    remove.click()
    reader.dialog().get_by_role("button", name="Remove the task").click()
    expect(remove).to_have_count(0)


def test_hostile_names_and_labels_are_shown_as_text_and_run_nothing(reader: Reader) -> None:
    deployment = reader.deployment
    with deployment.registry.database.write_transaction() as session:
        task = create_task(session, OPERATOR, NAME, backbone=BACKBONE, size=SIZE).id
        source = create_source(session, OPERATOR, task, HOSTILE, deployment.users["owner"]).id
        grant_right(session, OPERATOR, deployment.users["admin"], source, "use")
    deployment.publish(source, labels=(HOSTILE, "cat"))
    page = reader.sign_in("admin")
    page.get_by_label("Task", exact=True).select_option(label=NAME)

    expect(reader.row(source).get_by_role("button")).to_have_text(HOSTILE)
    answer = reader.ask(3, name="<img src=x onerror=alert(1)>.png")

    assert HOSTILE in reader.scores(answer)
    answer.locator("summary").click()
    expect(answer.locator(".says li")).to_contain_text(HOSTILE)
    reader.row(source).get_by_role("button").click()
    expect(reader.dialog().locator(".chip").first).to_have_text(HOSTILE)
    reader.dialog().get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Administration").click()
    expect(page.locator("#page-administration")).to_contain_text(NAME)
    assert page.locator("img[src=x], main script").count() == 0
    deployment.request("admin", "DELETE", f"/sources/{source}")
