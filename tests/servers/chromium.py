"""The system's Chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
QUIET = ("--disable-sync", "--no-first-run", "--disable-dev-shm-usage")


@contextmanager
def launch_chromium() -> Iterator[Browser]:
    """Start the browser; skip the test where there is none."""
    if CHROMIUM is None:
        pytest.skip("chromium is missing: install it, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *QUIET])
        yield browser
        browser.close()
