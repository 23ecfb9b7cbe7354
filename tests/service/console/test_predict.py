"""Pictures and predictions: dropped, pasted, and predicted again with other sources."""

import base64
from collections.abc import Iterator
from uuid import UUID

import pytest
from playwright.sync_api import FilePayload, expect

from tests.service.console.browser import ConsoleTab
from tests.service.deployment import Deployment, picture

DISPATCH_FILE = """
([kind, target, bytes, name]) => {
    const file = new File([Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0))], name, { type: "image/png" });
    const transfer = new DataTransfer();
    transfer.items.add(file);
    const event = kind === "drop"
        ? new DragEvent(kind, { dataTransfer: transfer, bubbles: true })
        : new ClipboardEvent(kind, { clipboardData: transfer, bubbles: true });
    document.querySelector(target).dispatchEvent(event);
}
"""


@pytest.fixture
def other(deployment: Deployment) -> Iterator[UUID]:
    """A second source with another result."""
    source = deployment.add_source()
    deployment.publish(source, seed=7, labels=("cat", "emu"))
    yield source
    deployment.request("admin", "DELETE", f"/sources/{source}")


@pytest.mark.parametrize(("kind", "target"), [("drop", "#drop"), ("paste", "body")])
def test_a_dropped_or_pasted_picture_is_predicted(tab: ConsoleTab, kind: str, target: str) -> None:
    page = tab.sign_in("user")
    response = tab.deployment.predict(image=picture(3)).json()

    page.evaluate(DISPATCH_FILE, [kind, target, base64.b64encode(picture(3)).decode(), "cat.png"])

    item = page.locator("#pictures > li").first
    expect(item.locator(".labels")).to_be_visible()
    assert item.locator(".labels .label").first.inner_text() == response["results"][0]["labels"][0]["label"]
    expect(item.get_by_role("img", name="The picture cat.png")).to_be_visible()
    expect(item.locator(".based-on")).to_contain_text("Based on 1 source")


def test_several_pictures_are_predicted_separately(tab: ConsoleTab) -> None:
    page = tab.sign_in("user")
    files = [FilePayload(name=f"{n}.png", mimeType="image/png", buffer=picture(n)) for n in range(3)]

    page.get_by_label("Choose pictures").set_input_files(files)

    expect(page.locator("#pictures > li .labels")).to_have_count(3)
    page.get_by_role("button", name="Remove 1.png").click()
    expect(page.locator("#pictures > li")).to_have_count(2)


def test_unticking_a_source_predicts_without_it(tab: ConsoleTab, other: UUID) -> None:
    page = tab.sign_in("user")
    expect(tab.row(other)).to_contain_text("ready")
    item = tab.add_picture(3)
    expect(item.locator(".based-on")).to_contain_text("Based on 2 sources")
    both = tab.scores(item)
    expect(item.locator(".explanation li")).to_have_count(2)

    tab.row(other).get_by_role("checkbox").uncheck()

    expect(item.locator(".based-on")).to_contain_text("Based on 1 source")
    alone = tab.scores(item)
    response = tab.deployment.predict(image=picture(3), sources=str(tab.deployment.source)).json()
    assert list(alone) == [scored["label"] for scored in response["results"][0]["labels"]]
    assert alone != both
    assert "emu" in both
    assert "emu" not in alone
    expect(item.locator(".change").first).not_to_be_empty()

    page.get_by_role("button", name="Select no source").click()
    expect(item).to_contain_text("No source is selected")
    page.get_by_role("button", name="Select all sources", exact=True).click()
    expect(item.locator(".based-on")).to_contain_text("Based on 2 sources")
    assert tab.scores(item) == both


def test_each_sources_own_result_and_weight_are_shown(tab: ConsoleTab, other: UUID) -> None:
    page = tab.sign_in("user")
    expect(tab.row(other)).to_contain_text("ready")
    item = tab.add_picture(3)
    expect(item.locator(".labels")).to_be_visible()

    item.get_by_text("Result of each source").click()

    own = item.locator(f'.explanation [data-source="{other}"]')
    expect(own).to_contain_text("weight 50.0 %")
    expect(own).to_contain_text("emu")
    expect(page.locator(".explanation code")).to_be_visible()


def test_an_unreadable_file_shows_the_services_message(tab: ConsoleTab) -> None:
    page = tab.sign_in("user")

    page.get_by_label("Choose pictures").set_input_files(
        [FilePayload(name="note.txt", mimeType="text/plain", buffer=b"no picture")]
    )

    response = tab.deployment.predict(image=b"no picture").json()
    expect(page.locator("#pictures").get_by_role("alert")).to_contain_text(response["title"])
    expect(page.locator("#pictures")).to_contain_text(response["detail"], ignore_case=True)
    expect(page.locator("#pictures")).to_contain_text("This browser cannot show this file.")


def test_nothing_is_wider_than_a_phone(tab: ConsoleTab, other: UUID) -> None:
    tab.page.set_viewport_size({"width": 360, "height": 740})
    page = tab.sign_in("owner")
    item = tab.add_picture(3, name="a-name-that-is-longer-than-any-phone-is-wide" * 3 + ".png")
    expect(item.locator(".labels")).to_be_visible()
    item.locator("summary").click()

    assert page.evaluate("document.documentElement.scrollWidth") == 360
    tab.row(other).get_by_role("button").click()
    expect(tab.dialog().get_by_role("button", name="Forget the source…")).to_be_visible()
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= 360


def test_a_user_without_grants_sees_what_to_do(tab: ConsoleTab) -> None:
    page = tab.sign_in("stranger")

    expect(page.locator("#source-list-end")).to_contain_text("Ask an admin or an owner for a grant")


def test_a_lost_connection_is_shown_and_recovers(tab: ConsoleTab) -> None:
    page = tab.sign_in("user")
    expect(tab.row(tab.deployment.source)).to_be_visible()
    tab.context.set_offline(True)

    item = tab.add_picture(5)

    expect(page.locator("#banner")).to_contain_text("The service does not answer")
    expect(item.get_by_role("alert")).to_contain_text("No connection")
    tab.context.set_offline(False)
    expect(page.locator("#banner")).to_be_hidden()
    expect(item.locator(".labels")).to_be_visible()
    tab.ignore_errors("net::ERR_INTERNET_DISCONNECTED")
