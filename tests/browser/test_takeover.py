"""Whatever a visitor starts takes the place of what they have under way, on whichever tab."""

from itertools import pairwise

from gradio_client import Client
from playwright.sync_api import Page, expect

from tests.browser.test_page import LONG, attack, choose, endless, expose, state, tiles, wait_for
from tests.test_server import run

PICTURES = {  # a tab -> its button, and what it shows its run in
    "Attack": ("#go", "#stage .ls-stage"),
    "Compare": ("#compare-go", "#compare .ls-two"),
    "Map": ("#map-go", "#map .ls-survey"),
    "Sweep": ("#sweep-go", "#sweep .ls-survey"),
}
# Every ordered pair of tabs once: a walk over all sixteen.
WALK = (
    "Attack Attack Compare Compare Map Map Sweep Sweep Attack Map Attack Sweep Compare Attack Compare Sweep Map Compare"
)
HEARD = """([place, before]) => {
    const { state, run } = document.querySelector(place).dataset;
    return run && run !== before && ['running', 'done', 'error'].includes(state);
}"""


def start(page: Page, tab: str) -> None:
    """Presses its button, and waits for the run's first message."""
    button, place = PICTURES[tab]
    page.get_by_role("tab", name=tab, exact=True).click()
    before = page.locator(place).get_attribute("data-run")
    page.click(button)
    page.wait_for_function(HEARD, arg=[place, before], timeout=LONG)


def states(page: Page) -> dict[str, str]:
    """Of the pictures that were opened."""
    found = {tab: page.locator(place) for tab, (_, place) in PICTURES.items()}
    return {tab: one.get_attribute("data-state") for tab, one in found.items() if one.count()}


def test_every_pair_of_tabs(page):
    endless(page)  # DLG never ends by itself: on every tab there is something to take over from
    assert len(set(pairwise(WALK.split()))) == len(PICTURES) ** 2
    for tab in WALK.split():
        start(page, tab)
        # What is said of a run that went wrong comes a second later.
        page.wait_for_timeout(1300)
        others = {other: found for other, found in states(page).items() if other != tab}
        assert states(page)[tab] == "running", (tab, page.locator(PICTURES[tab][1]).inner_text()[:300])
        assert not {"running", "waiting", "error"} & set(others.values()), (tab, others)
    page.click("#compare-stop")
    expect(page.locator("#compare .ls-two")).to_have_attribute("data-state", "stopped")


def test_quick_starts_end_with_the_last(page, server):
    """Also before the server has answered the one before: none of them is left behind on the device."""
    endless(page)
    page.evaluate("() => { for (let n = 0; n < 4; n += 1) document.querySelector('#go').click(); }")
    page.click("#stop")
    wait_for(page, "d.state === 'stopped'")
    page.evaluate("() => { for (let n = 0; n < 4; n += 1) document.querySelector('#go').click(); }")
    page.evaluate("() => document.querySelector('#go').click()")
    wait_for(page, "d.state === 'running' && +d.frames > 1")
    mine = state(page)["run"]
    page.wait_for_timeout(2000)
    assert state(page)["run"] == mine  # no frames of the others
    page.click("#stop")
    wait_for(page, "d.state === 'stopped'")
    told = run(Client(server, verbose=False), slice="all")  # another visitor's: it does not wait for a minute of DLG
    assert told[-1]["end"]["certified"]
    page.wait_for_timeout(500)
    assert state(page)["state"] == "stopped"
    expose(page, "query", 0)
    choose(page, "#attack-name", "span")
    attack(page)
    assert tiles(page)[0] == "the"


def test_a_stopped_run_leaves_the_line(page, browser, server):
    """Who gives up while others are attacking is not in anyone's way."""
    other = browser.new_page()
    other.goto(server)
    other.wait_for_selector(".ls-stage[data-state=recorded]")
    endless(other)
    attack(other, "d.state === 'running'")
    for _ in range(3):
        page.click("#go")
        page.locator(".ls-status", has_text="Waiting: 1 run ahead of yours.").wait_for(timeout=LONG)
    page.click("#stop")
    wait_for(page, "d.state === 'stopped'")
    other.click("#stop")
    wait_for(other, "d.state === 'stopped'")
    page.wait_for_timeout(1500)
    assert state(page)["state"] == "stopped"
    attack(page)
    other.close()
