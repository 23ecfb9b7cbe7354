"""A real browser, and a page of the console whose every error is remembered."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.service.console.browser import Reader
from tests.service.deployment import Deployment

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
QUIET = ("--disable-sync", "--no-first-run", "--disable-dev-shm-usage")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, as the system has it."""
    if CHROMIUM is None:
        pytest.skip("no chromium here: install the system's, or name it in CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *QUIET])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser profile with nothing in it."""
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def reader(context: BrowserContext, deployment: Deployment) -> Iterator[Reader]:
    """Somebody at the console, on whose page nothing may have gone wrong in the end."""
    reader = Reader(context, deployment)
    yield reader
    reader.assert_faultless()
