"""A browser tab with the console: finds things by their visible text, and records errors of the page."""

import re
from dataclasses import dataclass, field
from uuid import UUID

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, FilePayload, Locator, Page, expect

from tests.service.deployment import Deployment, picture

ERROR_RESPONSE = "Failed to load resource: the server responded with a status of"
TIMEOUT_MS = 60_000

expect.set_options(timeout=TIMEOUT_MS)


@dataclass
class ConsoleTab:
    """One tab of the console."""

    context: BrowserContext
    deployment: Deployment
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._record)
        self.page.on("dialog", self._dismiss)
        self.page.on("crash", lambda _: self.errors.append("the page crashed"))

    def open(self, path: str = "/") -> Page:
        """Open the page without signing in."""
        self.page.goto(self.deployment.url + path)
        return self.page

    def sign_in(self, user: str, path: str = "/") -> Page:
        """Sign in as a user, or with a token."""
        self.open(path)
        self.page.get_by_label("Token").fill(self.deployment.tokens.get(user, user))
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("button", name="Sign out")).to_be_visible()
        return self.page

    def row(self, source: UUID) -> Locator:
        return self.page.locator(f'#source-list [data-source="{source}"]')

    def dialog(self) -> Locator:
        return self.page.locator("dialog[open]").last

    def add_picture(self, number: int = 0, name: str = "cat.png") -> Locator:
        """Add a picture and return its item in the list."""
        file = FilePayload(name=name, mimeType="image/png", buffer=picture(number))
        self.page.get_by_label("Choose pictures").set_input_files([file])
        return self.page.locator("#pictures > li").first

    def scores(self, item: Locator) -> dict[str, str]:
        """Return the labels of a prediction with their scores, as they are shown."""
        rows = item.locator(".labels > li")
        expect(rows.first).to_be_visible()
        labels, scores = (rows.locator(part).all_inner_texts() for part in (".label", ".score"))
        return dict(zip(labels, scores, strict=True))

    def ignore_errors(self, text: str) -> None:
        """Drop recorded errors that the test has caused on purpose."""
        self.errors = [error for error in self.errors if text not in error]

    def _record(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not re.match(ERROR_RESPONSE, message.text):
            self.errors.append(f"{message.type}: {message.text}")

    def _dismiss(self, dialog: Dialog) -> None:
        self.errors.append(f"a script opened a dialog: {dialog.message}")
        dialog.dismiss()
