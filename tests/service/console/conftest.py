"""A real browser, and a tab of the console that must end without errors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.service.console.browser import ConsoleTab
from tests.service.deployment import Deployment

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
QUIET = ("--disable-sync", "--no-first-run", "--disable-dev-shm-usage")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    if CHROMIUM is None:
        pytest.skip("chromium is missing: install it, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *QUIET])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """An empty browser profile."""
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def tab(context: BrowserContext, deployment: Deployment) -> Iterator[ConsoleTab]:
    """A tab; at the end there was no script error, no policy violation and no dialog opened by a script."""
    tab = ConsoleTab(context, deployment)
    yield tab
    assert tab.errors == []
