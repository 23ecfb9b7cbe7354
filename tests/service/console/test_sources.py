"""Sources on the console: uploaded, trained before one's eyes, granted, and forgotten with a receipt."""

import json
from pathlib import Path
from threading import Event

from playwright.sync_api import FilePayload, expect

from tests.service.console.browser import Reader
from tests.service.deployment import TASK, archive, backbone
from tests.service.waiting import wait_for
from tests.trainer.worker.fixtures import WorkerThread, make_worker


def upload(reader: Reader, name: str, shards: int = 1) -> None:
    page = reader.page
    page.get_by_role("button", name="Upload a source").click()
    dialog = reader.dialog()
    dialog.get_by_label("Name", exact=True).fill(name)
    dialog.get_by_label("Shards", exact=True).fill(str(shards))
    file = FilePayload(name="pictures.zip", mimeType="application/zip", buffer=archive())
    dialog.get_by_label("Archive").set_input_files([file])
    dialog.get_by_role("button", name="Upload").click()


def test_a_source_is_uploaded_trained_and_answers(reader: Reader) -> None:
    page = reader.sign_in("owner")
    expect(reader.row(reader.deployment.source)).to_be_visible()
    name = reader.deployment.new_name("upload")

    upload(reader, name)

    expect(reader.dialog()).to_contain_text("6 pictures")
    reader.dialog().get_by_role("button", name="Done").click()
    row = page.locator("#menu li", has_text=name)
    expect(row).to_contain_text("waits for a worker")
    expect(row.get_by_role("progressbar")).to_be_visible()
    expect(row.get_by_role("checkbox")).to_be_disabled()
    running = WorkerThread(make_worker(reader.deployment.registry, backbone()))
    try:
        expect(row).to_contain_text("ready")
        expect(row.get_by_role("progressbar")).to_be_hidden()
        expect(row.get_by_role("checkbox")).to_be_checked()
        answer = reader.ask(11)
        expect(answer.locator(".rests")).to_contain_text(name)
    finally:
        running.end()


def test_an_upload_that_is_refused_says_why_and_can_be_mended(reader: Reader) -> None:
    page = reader.sign_in("owner")
    taken = page.locator("#menu .link").first.inner_text()

    upload(reader, taken)

    problem = reader.dialog().get_by_role("alert")
    expect(problem).to_contain_text("Conflict")
    expect(problem).to_contain_text("choose another name")
    name = reader.deployment.new_name("upload")
    reader.dialog().get_by_label("Name", exact=True).fill(name)
    reader.dialog().get_by_role("button", name="Upload").click()
    expect(reader.dialog()).to_contain_text("taken in")


def test_a_grant_is_given_and_taken_back(reader: Reader) -> None:
    deployment = reader.deployment
    source = deployment.add_source()
    reader.sign_in("admin")
    reader.row(source).get_by_role("button").click()
    dialog = reader.dialog()

    dialog.get_by_label("User or group").fill("stranger")
    dialog.get_by_role("button", name="Grant", exact=True).click()

    revoke = dialog.get_by_role("button", name="Revoke stranger's right to use")
    expect(revoke).to_be_visible()
    assert deployment.request("stranger", "GET", f"/sources/{source}").json()["rights"] == ["use"]
    revoke.click()
    expect(revoke).to_have_count(0)
    assert deployment.request("stranger", "GET", f"/sources/{source}").status_code == 404


def test_a_forgotten_source_leaves_the_menu_and_its_receipt_is_offered(reader: Reader, tmp_path: Path) -> None:
    deployment = reader.deployment
    source = deployment.add_source()
    deployment.publish(source, seed=9)
    name = deployment.request("owner", "GET", f"/sources/{source}").json()["name"]
    page = reader.sign_in("owner")
    reader.row(source).get_by_role("button").click()
    reader.dialog().get_by_role("button", name="Forget the source…").click()
    sure = reader.dialog().get_by_role("button", name="Forget it for good")
    expect(reader.dialog()).to_contain_text("It cannot be undone")
    expect(reader.dialog()).to_contain_text("3 grants to it will end")
    expect(sure).to_be_disabled()
    reader.dialog().get_by_label("Type the source's name").fill(f"{name}?")
    expect(sure).to_be_disabled()
    reader.dialog().get_by_label("Type the source's name").fill(name)

    sure.click()

    expect(reader.row(source)).to_have_count(0)
    assert deployment.request("owner", "GET", f"/sources/{source}").status_code == 404
    expect(reader.dialog().locator(".steps > li.done")).to_have_count(6)
    with page.expect_download() as downloading:
        reader.dialog().get_by_role("button", name="Download the receipt").click()
    downloading.value.save_as(tmp_path / "receipt.json")
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert str(source) in json.dumps(receipt)
    reader.dialog().get_by_role("button", name="Check the receipt").click()
    expect(reader.dialog()).to_contain_text("The receipt holds.")
    reader.dialog().get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Forgetting").click()
    expect(page.locator("#page-forgetting tbody tr").first).to_contain_text("complete")


def test_one_picture_is_forgotten_and_its_shard_is_trained_again(reader: Reader) -> None:
    deployment = reader.deployment
    said = {"task": TASK, "name": deployment.new_name("upload")}
    headers = {"Content-Type": "application/zip"}
    source = deployment.request("owner", "POST", "/sources", params=said, content=archive(), headers=headers).json()[
        "source_id"
    ]
    make_worker(deployment.registry, backbone()).run(Event(), once=True)
    reader.sign_in("owner")
    reader.row(source).get_by_role("button").click()
    pictures = reader.page.locator("dialog.drawer")
    pictures.locator("summary", has_text="Show the pictures").click()
    expect(pictures.locator(".samples > li")).to_have_count(6)

    pictures.locator(".samples > li").first.get_by_role("button").click()
    expect(reader.dialog()).to_contain_text("shard 1 with its 6 pictures stops answering")
    reader.dialog().get_by_role("button", name="Forget the picture for good").click()

    expect(reader.dialog().locator(".steps > li").first).to_be_visible()
    wait_for(lambda: deployment.request("owner", "GET", f"/sources/{source}").json()["samples"] == 5)
    expect(pictures.locator(".samples > li")).to_have_count(5)
