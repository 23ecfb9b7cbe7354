"""Sources on the console: uploaded, trained, granted, and forgotten with a receipt."""

import json
from pathlib import Path
from threading import Event

from playwright.sync_api import FilePayload, expect

from tests.servers.processes import wait_until
from tests.service.console.browser import ConsoleTab
from tests.service.deployment import TASK, archive, backbone
from tests.trainer.worker.fixtures import WorkerThread, make_worker


def upload(tab: ConsoleTab, name: str, shards: int = 1) -> None:
    page = tab.page
    page.get_by_role("button", name="Upload a source").click()
    dialog = tab.dialog()
    dialog.get_by_label("Name", exact=True).fill(name)
    dialog.get_by_label("Shards", exact=True).fill(str(shards))
    file = FilePayload(name="pictures.zip", mimeType="application/zip", buffer=archive())
    dialog.get_by_label("Archive").set_input_files([file])
    dialog.get_by_role("button", name="Upload").click()


def test_a_source_is_uploaded_trained_and_used(tab: ConsoleTab) -> None:
    page = tab.sign_in("owner")
    expect(tab.row(tab.deployment.source)).to_be_visible()
    name = tab.deployment.new_name("upload")

    upload(tab, name)

    expect(tab.dialog()).to_contain_text("6 pictures")
    tab.dialog().get_by_role("button", name="Done").click()
    row = page.locator("#source-list li", has_text=name)
    expect(row).to_contain_text("waiting for a worker")
    expect(row.get_by_role("progressbar")).to_be_visible()
    expect(row.get_by_role("checkbox")).to_be_disabled()
    with WorkerThread(make_worker(tab.deployment.registry, backbone())):
        expect(row).to_contain_text("ready")
        expect(row.get_by_role("progressbar")).to_be_hidden()
        expect(row.get_by_role("checkbox")).to_be_checked()
        item = tab.add_picture(11)
        expect(item.locator(".based-on")).to_contain_text(name)


def test_a_refused_upload_shows_why_and_can_be_corrected(tab: ConsoleTab) -> None:
    page = tab.sign_in("owner")
    taken = page.locator("#source-list .link").first.inner_text()

    upload(tab, taken)

    problem = tab.dialog().get_by_role("alert")
    expect(problem).to_contain_text("Conflict")
    expect(problem).to_contain_text("choose another name")
    name = tab.deployment.new_name("upload")
    tab.dialog().get_by_label("Name", exact=True).fill(name)
    tab.dialog().get_by_role("button", name="Upload").click()
    expect(tab.dialog()).to_contain_text("Added 6 pictures")


def test_a_grant_is_given_and_revoked(tab: ConsoleTab) -> None:
    deployment = tab.deployment
    source = deployment.add_source()
    tab.sign_in("admin")
    tab.row(source).get_by_role("button").click()
    dialog = tab.dialog()

    dialog.get_by_label("User or group").fill("stranger")
    dialog.get_by_role("button", name="Grant", exact=True).click()

    revoke = dialog.get_by_role("button", name="Revoke stranger's right to use")
    expect(revoke).to_be_visible()
    assert deployment.request("stranger", "GET", f"/sources/{source}").json()["rights"] == ["use"]
    revoke.click()
    expect(revoke).to_have_count(0)
    assert deployment.request("stranger", "GET", f"/sources/{source}").status_code == 404


def test_a_forgotten_source_leaves_the_list_and_its_receipt_is_offered(tab: ConsoleTab, tmp_path: Path) -> None:
    deployment = tab.deployment
    source = deployment.add_source(seeds=[9])
    name = deployment.request("owner", "GET", f"/sources/{source}").json()["name"]
    page = tab.sign_in("owner")
    tab.row(source).get_by_role("button").click()
    tab.dialog().get_by_role("button", name="Forget the source…").click()
    confirm = tab.dialog().get_by_role("button", name="Forget permanently")
    expect(tab.dialog()).to_contain_text("This cannot be undone")
    expect(tab.dialog()).to_contain_text("3 grants to it will be revoked")
    expect(confirm).to_be_disabled()
    tab.dialog().get_by_label("Type the source's name").fill(f"{name}?")
    expect(confirm).to_be_disabled()
    tab.dialog().get_by_label("Type the source's name").fill(name)

    confirm.click()

    expect(tab.row(source)).to_have_count(0)
    assert deployment.request("owner", "GET", f"/sources/{source}").status_code == 404
    expect(tab.dialog().locator(".steps > li.done")).to_have_count(6)
    with page.expect_download() as downloading:
        tab.dialog().get_by_role("button", name="Download the receipt").click()
    downloading.value.save_as(tmp_path / "receipt.json")
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert str(source) in json.dumps(receipt)
    tab.dialog().get_by_role("button", name="Check the receipt").click()
    expect(tab.dialog()).to_contain_text("The receipt is valid.")
    tab.dialog().get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Erasures").click()
    expect(page.locator("#page-erasures tbody tr").first).to_contain_text("complete")


def test_one_picture_is_forgotten_and_its_shard_is_trained_again(tab: ConsoleTab) -> None:
    deployment = tab.deployment
    params = {"task": TASK, "name": deployment.new_name("upload")}
    headers = {"Content-Type": "application/zip"}
    uploaded = deployment.request("owner", "POST", "/sources", params=params, content=archive(), headers=headers)
    source = uploaded.json()["source_id"]
    make_worker(deployment.registry, backbone()).run(Event(), once=True)
    tab.sign_in("owner")
    tab.row(source).get_by_role("button").click()
    pictures = tab.page.locator("dialog.drawer")
    pictures.locator("summary", has_text="Show the pictures").click()
    expect(pictures.locator(".samples > li")).to_have_count(6)

    pictures.locator(".samples > li").first.get_by_role("button").click()
    expect(tab.dialog()).to_contain_text("Shard 1 (6 pictures) stops answering")
    tab.dialog().get_by_role("button", name="Forget permanently").click()

    expect(tab.dialog().locator(".steps > li").first).to_be_visible()
    wait_until(lambda: deployment.request("owner", "GET", f"/sources/{source}").json()["samples"] == 5)
    expect(pictures.locator(".samples > li")).to_have_count(5)
