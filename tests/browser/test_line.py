"""When others are attacking: the place in line, and a line that is full."""

import pytest
from gradio_client import Client

from demo.bench.server import served
from tests.browser.test_page import LONG, attack, wait_for
from tests.test_server import ENDLESS, SENTENCE, run


@pytest.fixture(scope="module")
def crowded():
    """A server with one place to wait."""
    with served("--queue", "1") as server:
        yield server


def opened(browser, server):
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.goto(server.address)
    page.wait_for_selector("#go", timeout=LONG)
    page.wait_for_selector(".ls-stage[data-state=recorded]", timeout=LONG)
    return page


def reads(page, place, words):
    page.locator(place, has_text=words).wait_for(timeout=LONG)


def test_a_waiting_page_tells_its_place_and_a_full_line_refuses(browser, crowded):
    running = Client(crowded.address, verbose=False).submit(api_name="/attack", sentence=SENTENCE, **ENDLESS)
    next(iter(running))
    waiting, refused = opened(browser, crowded), opened(browser, crowded)
    waiting.click("#go")
    reads(waiting, ".ls-status", "Waiting: 1 run ahead of yours.")
    refused.click("#go")
    reads(refused, ".ls-headline", "Not started: too many are in line")
    with pytest.raises(Exception, match=r"[Qq]ueue is full"):  # and so for programs
        run(Client(crowded.address, verbose=False), slice="all")
    running.cancel()
    wait_for(waiting, "d.state === 'done'")
    attack(refused)  # and can try again
    refused.get_by_role("tab", name="Map").click()
    refused.click("#map-go")
    refused.wait_for_selector(".ls-survey[data-state=running]", timeout=LONG)
    waiting.click("#go")
    reads(waiting, ".ls-status", "Waiting: 1 run ahead of yours.")
    refused.click("#map-stop")
    wait_for(waiting, "d.state === 'done'")
    waiting.close()
    refused.close()
