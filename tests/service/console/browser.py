"""Somebody who sits before the console: finds things as people do, by their words, and notes what goes wrong."""

import re
from dataclasses import dataclass, field
from uuid import UUID

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, FilePayload, Locator, Page, expect

from tests.service.deployment import Deployment, picture

REFUSED = "Failed to load resource: the server responded with a status of"
PATIENCE_MS = 60_000

expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Reader:
    """One tab of the console."""

    context: BrowserContext
    deployment: Deployment
    faults: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)  # what the browser notes of answers that are no success

    def __post_init__(self) -> None:
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("dialog", self._refuse)
        self.page.on("crash", lambda _: self.faults.append("the page crashed"))

    def open(self, at: str = "/") -> Page:
        """The page, not signed in."""
        self.page.goto(self.deployment.url + at)
        return self.page

    def sign_in(self, who: str, at: str = "/") -> Page:
        """The page as that person sees it, once the menu has come."""
        self.open(at)
        self.page.get_by_label("Your token").fill(self.deployment.tokens.get(who, who))
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("button", name="Sign out")).to_be_visible()
        return self.page

    def row(self, source: UUID) -> Locator:
        """The source's row on the menu."""
        return self.page.locator(f'#menu [data-source="{source}"]')

    def dialog(self) -> Locator:
        """The dialog that is on top."""
        return self.page.locator("dialog[open]").last

    def ask(self, number: int = 0, name: str = "cat.png") -> Locator:
        """Gives a picture to the page; its place in the list."""
        file = FilePayload(name=name, mimeType="image/png", buffer=picture(number))
        self.page.get_by_label("Choose pictures").set_input_files([file])
        return self.page.locator("#pictures > li").first

    def scores(self, answer: Locator) -> dict[str, str]:
        """The labels of an answer with their scores, as they are shown."""
        rows = answer.locator(".labels > li")
        expect(rows.first).to_be_visible()
        labels, scores = (rows.locator(part).all_inner_texts() for part in (".label", ".score"))
        return dict(zip(labels, scores, strict=True))

    def assert_faultless(self) -> None:
        """No error, no violation of the policy, and no dialog of a script, since the page was opened."""
        assert self.faults == []

    def forgive(self, text: str) -> None:
        """What the browser noted of this is what the test did on purpose."""
        self.faults = [fault for fault in self.faults if text not in fault]

    def _note(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        if re.match(REFUSED, message.text):
            self.refusals.append(message.text)
        else:
            self.faults.append(f"{message.type}: {message.text}")

    def _refuse(self, dialog: Dialog) -> None:
        self.faults.append(f"a script opened a dialog: {dialog.message}")
        dialog.dismiss()
