"""Pictures and answers: dropped, pasted, and asked again by another set of sources."""

import base64
from collections.abc import Iterator
from uuid import UUID

import pytest
from playwright.sync_api import FilePayload, Locator, expect

from tests.service.console.browser import Reader
from tests.service.deployment import TASK, Deployment, picture

HAND_OVER = """
([kind, target, bytes, name]) => {
    const file = new File([Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0))], name, { type: "image/png" });
    const carried = new DataTransfer();
    carried.items.add(file);
    const made = kind === "drop"
        ? new DragEvent(kind, { dataTransfer: carried, bubbles: true })
        : new ClipboardEvent(kind, { clipboardData: carried, bubbles: true });
    document.querySelector(target).dispatchEvent(made);
}
"""


@pytest.fixture
def other(deployment: Deployment) -> Iterator[UUID]:
    """A second source, which says something else."""
    source = deployment.add_source()
    deployment.publish(source, seed=7, labels=("cat", "emu"))
    yield source
    deployment.request("admin", "DELETE", f"/sources/{source}")


def best(answer: Locator) -> str:
    return answer.locator(".labels .label").first.inner_text()


@pytest.mark.parametrize(("kind", "target"), [("drop", "#drop"), ("paste", "body")])
def test_a_picture_that_is_dropped_or_pasted_is_answered(reader: Reader, kind: str, target: str) -> None:
    page = reader.sign_in("user")
    told = reader.deployment.request(
        "user", "POST", "/predict", files={"image": picture(3)}, data={"task": TASK}
    ).json()

    page.evaluate(HAND_OVER, [kind, target, base64.b64encode(picture(3)).decode(), "cat.png"])

    answer = page.locator("#pictures > li").first
    expect(answer.locator(".labels")).to_be_visible()
    assert best(answer) == told["results"][0]["labels"][0]["label"]
    expect(answer.get_by_role("img", name="The picture cat.png")).to_be_visible()
    expect(answer.locator(".rests")).to_contain_text("Answered by 1 source")


def test_several_pictures_are_answered_each_by_itself(reader: Reader) -> None:
    page = reader.sign_in("user")
    files = [FilePayload(name=f"{n}.png", mimeType="image/png", buffer=picture(n)) for n in range(3)]

    page.get_by_label("Choose pictures").set_input_files(files)

    expect(page.locator("#pictures > li .labels")).to_have_count(3)
    page.get_by_role("button", name="Remove 1.png").click()
    expect(page.locator("#pictures > li")).to_have_count(2)


def test_unticking_a_source_changes_the_answer_to_what_the_rest_says(reader: Reader, other: UUID) -> None:
    page = reader.sign_in("user")
    expect(reader.row(other)).to_contain_text("ready")
    answer = reader.ask(3)
    expect(answer.locator(".rests")).to_contain_text("Answered by 2 sources")
    both = reader.scores(answer)
    expect(answer.locator(".says li")).to_have_count(2)

    reader.row(other).get_by_role("checkbox").uncheck()

    expect(answer.locator(".rests")).to_contain_text("Answered by 1 source")
    alone = reader.scores(answer)
    wished = {"task": TASK, "sources": str(reader.deployment.source)}
    told = reader.deployment.request("user", "POST", "/predict", files={"image": picture(3)}, data=wished).json()
    assert list(alone) == [scored["label"] for scored in told["results"][0]["labels"]]
    assert alone != both
    assert "emu" in both
    assert "emu" not in alone
    expect(answer.locator(".change").first).not_to_be_empty()

    page.get_by_role("button", name="Untick all sources").click()
    expect(answer).to_contain_text("Nothing is ticked")
    page.get_by_role("button", name="Tick all sources", exact=True).click()
    expect(answer.locator(".rests")).to_contain_text("Answered by 2 sources")
    assert reader.scores(answer) == both


def test_each_sources_own_answer_and_weight_are_told(reader: Reader, other: UUID) -> None:
    page = reader.sign_in("user")
    expect(reader.row(other)).to_contain_text("ready")
    answer = reader.ask(3)
    expect(answer.locator(".labels")).to_be_visible()

    answer.get_by_text("What each source said by itself").click()

    own = answer.locator(f'.says [data-source="{other}"]')
    expect(own).to_contain_text("weight 50.0 %")
    expect(own).to_contain_text("emu")
    expect(page.locator(".says code")).to_be_visible()


def test_what_is_no_picture_is_refused_in_the_services_own_words(reader: Reader) -> None:
    page = reader.sign_in("user")

    page.get_by_label("Choose pictures").set_input_files(
        [FilePayload(name="note.txt", mimeType="text/plain", buffer=b"no picture")]
    )

    told = reader.deployment.request(
        "user", "POST", "/predict", files={"image": b"no picture"}, data={"task": TASK}
    ).json()
    expect(page.locator("#pictures").get_by_role("alert")).to_contain_text(told["title"])
    expect(page.locator("#pictures")).to_contain_text(told["detail"], ignore_case=True)
    expect(page.locator("#pictures")).to_contain_text("This browser cannot show it.")


def test_nothing_is_wider_than_a_phone(reader: Reader, other: UUID) -> None:
    reader.page.set_viewport_size({"width": 360, "height": 740})
    page = reader.sign_in("owner")
    answer = reader.ask(3, name="a-name-that-is-longer-than-any-phone-is-wide" * 3 + ".png")
    expect(answer.locator(".labels")).to_be_visible()
    answer.locator("summary").click()

    assert page.evaluate("document.documentElement.scrollWidth") == 360
    reader.row(other).get_by_role("button").click()
    expect(reader.dialog().get_by_role("button", name="Forget the source…")).to_be_visible()
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= 360


def test_who_may_use_nothing_is_told_what_to_do(reader: Reader) -> None:
    page = reader.sign_in("stranger")

    expect(page.locator("#menu-end")).to_contain_text("Ask an admin or an owner to grant you one")


def test_a_lost_connection_is_shown_and_found_again(reader: Reader) -> None:
    page = reader.sign_in("user")
    expect(reader.row(reader.deployment.source)).to_be_visible()
    reader.context.set_offline(True)

    answer = reader.ask(5)

    expect(page.locator("#banner")).to_contain_text("The service does not answer")
    expect(answer.get_by_role("alert")).to_contain_text("No connection")
    reader.context.set_offline(False)
    expect(page.locator("#banner")).to_be_hidden()
    expect(answer.locator(".labels")).to_be_visible()
    reader.forgive("net::ERR_INTERNET_DISCONNECTED")
