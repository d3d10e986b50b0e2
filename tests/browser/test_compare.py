"""The tab Compare, in a real browser."""

import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_page import LONG, attack, choose, expose, wait_for


def opened(page: Page) -> None:
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.wait_for_selector(".ls-two[data-state=recorded]")


def wait_in(page: Page, condition: str) -> None:
    script = f"() => {{ const d = document.querySelector('.ls-two').dataset; return {condition}; }}"
    page.wait_for_function(script, timeout=LONG)


def conclusion(page: Page) -> str:
    return page.locator(".ls-two .ls-conclusion").inner_text()


def words(page: Page, side: str) -> list[str]:
    return page.locator(f".ls-two [data-side={side}] .ls-tile .ls-word").all_text_contents()


def test_a_recorded_comparison_plays_and_can_be_scrubbed(page):
    opened(page)
    seen = page.locator(".ls-two").get_attribute("data-shown")
    wait_in(page, f"d.shown !== '{seen}'")
    page.locator(".ls-two .ls-chart").click()
    page.locator(".ls-two").get_by_role("button", name="Last frame").click()
    page.locator(".ls-two .ls-conclusion", has_text="Only B (search) had every word in place, after").wait_for()
    assert words(page, "B")[:3] == ["the", "patient", "was"]
    assert words(page, "A") != words(page, "B")
    expect(page.locator("[data-side=A] .ls-headline")).to_contain_text("Not recovered")
    expect(page.locator("[data-side=B] .ls-headline")).to_contain_text("Certified")
    page.keyboard.press("Home")
    wait_in(page, "d.shown === '0'")
    assert conclusion(page).startswith("After 0.0 s")
    expect(page.locator("[data-side=B] .ls-headline")).to_have_text("…")


def test_two_experiments_run_on_one_clock_to_their_end(page):
    page.fill("#sentence textarea", "Two dogs bark.")
    expose(page, "query", 0)
    opened(page)
    choose(page, "#attack-A", "span")
    page.wait_for_function("() => document.querySelector('#compare-ready input').value === ''")
    page.click("#compare-go")
    wait_in(page, "d.state === 'done'")
    assert words(page, "A") == words(page, "B") == ["two", "dogs", "bark", "."]
    assert page.locator(".ls-two .ls-title").all_inner_texts() == [
        "MiniLM-L6, pretrained · attention query of layer 0",
        "span",
        "search",
    ]
    assert "every word in place after" in conclusion(page)


def test_stop_works_at_once_and_frees_the_device(page):
    opened(page)
    choose(page, "#compare-ready", "TAG against DLG")
    page.wait_for_function("() => document.querySelector('#attack-B input').value === 'dlg'")
    page.click("#compare-go")
    wait_in(page, "d.state === 'running' && +d.frames > 3")
    page.click("#compare-stop")
    wait_in(page, "d.state === 'stopped'")
    kept = page.locator(".ls-two").get_attribute("data-frames")
    assert conclusion(page).startswith("Stopped: A had")
    page.wait_for_timeout(1000)
    assert page.locator(".ls-two").get_attribute("data-frames") == kept
    page.get_by_role("tab", name="Attack", exact=True).click()
    expose(page, "query", 0)
    attack(page)


def test_what_is_wrong_is_said_in_the_picture(page):
    opened(page)
    for menu in ("#attack-A", "#attack-B"):
        choose(page, menu, "as it is")
    page.click("#compare-go")
    wait_in(page, "d.state === 'error'")
    assert conclusion(page).startswith("A and B are the same experiment")
    choose(page, "#attack-B", "rows")
    page.click("#compare-go")
    page.locator(".ls-two .ls-conclusion", has_text="B: rows cannot attack this").wait_for(timeout=LONG)


def test_hostile_text_stays_text(page):
    opened(page)
    bad = "<img src=x onerror=window.hacked=1>"
    frame = {
        "n": 0,
        "step": 1,
        "seconds": 1,
        "tokens": [bad],
        "marks": "x",
        "recover": 0,
        "stage": bad,
        "others": [bad],
    }
    start = {"own": bad, "exposed": bad, "truth": [bad], "breaks": []}
    end = {"headline": bad, "detail": bad}
    message = {"run": "x", "common": bad, "said": bad}
    both = {"starts": start, "frames": frame, "ends": end}
    told = message | {name: {"A": value, "B": value} for name, value in both.items()}
    page.evaluate("(text) => window.leakscopeCompare.receive(JSON.parse(text))", json.dumps(told))
    page.locator(".ls-two .ls-conclusion", has_text="<img src=x").wait_for()
    assert page.locator("#compare img").count() == 0
    assert page.evaluate("() => window.hacked") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_overflows_on_a_phone(browser, server, theme):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"{server}?__theme={theme}")
    page.wait_for_selector(".ls-stage[data-state=recorded]")
    wait_for(page, "+(d.drawn2d ?? 0) > 0")
    opened(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    for part in (".ls-two", ".ls-two .ls-player", "#compare-go", "#attack-B"):
        box = page.locator(part).first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    page.close()
