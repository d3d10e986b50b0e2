"""A real headless Chromium. Without one these tests fail: `bash tests/run` installs it."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "no Chromium was found: bash tests/run installs it"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser, server: str) -> Iterator[Page]:
    """The open page; a script error, or a request to another host, fails the test that caused it."""
    opened = browser.new_page(viewport={"width": 1440, "height": 1000})
    wrong: list[str] = []
    opened.on("pageerror", lambda problem: wrong.append(f"script error: {problem}"))
    opened.on("request", lambda request: None if _ours(request.url, server) else wrong.append(f"asked {request.url}"))
    opened.goto(server)
    opened.wait_for_selector("#go")
    opened.wait_for_selector(".ls-stage[data-state=recorded]")
    yield opened
    opened.close()
    assert not wrong


def _ours(address: str, server: str) -> bool:
    return address.startswith((server, "data:", "blob:"))
