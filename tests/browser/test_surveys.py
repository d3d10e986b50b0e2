"""The tabs Map and Sweep, in a real browser."""

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_accessibility import COLUMNS
from tests.browser.test_page import LONG, attack, choose, expose, wait_for


def opened(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name.capitalize(), exact=True).click()
    page.wait_for_selector(f"#{name} .ls-survey[data-state=recorded]")


def wait_in(page: Page, name: str, condition: str) -> None:
    """wait_in(page, "map", "d.state === 'done'")"""
    script = f"() => {{ const d = document.querySelector('#{name} .ls-survey').dataset; return {condition}; }}"
    page.wait_for_function(script, timeout=LONG)


def test_a_recorded_map_is_shown_at_once_and_can_be_saved(page):
    opened(page, "map")
    assert page.locator(".ls-cell").count() == 38
    cell = page.locator(".ls-cell").nth(1)
    assert "".join(cell.inner_text().split()).startswith("100%✓")
    assert cell.get_attribute("aria-label").startswith("query of layer 0: 100 % recovered, word for word in")
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    lines = saved.value.path().read_text(encoding="utf-8").splitlines()
    assert len(lines) == 39
    assert lines[0].startswith('"slice","layer"')
    with page.expect_download() as saved:
        page.get_by_role("button", name="PNG").click()
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")


def test_a_map_fills_stops_and_leads_to_the_attack(page):
    expose(page, "value", 5)  # a pick of the person's own, which the map then replaces
    page.fill("#sentence textarea", "Two dogs bark.")
    opened(page, "map")
    page.click("#map-go")
    wait_in(page, "map", "d.state === 'running' && +d.readings >= 3")
    page.click("#map-stop")
    wait_in(page, "map", "d.state === 'stopped'")
    kept = page.locator(".ls-progress").first.inner_text()
    page.wait_for_timeout(1000)
    assert page.locator(".ls-progress").first.inner_text() == kept
    assert kept.startswith("Stopped after")
    page.locator(".ls-cell").nth(0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#go", state="visible")
    page.wait_for_function("() => document.querySelector('.ls-block-key[aria-pressed=true]') !== null")
    attack(page)  # and the device is free
    assert "attention key of layer 0" in page.locator(".ls-stage .ls-title").inner_text()


def test_a_stopped_map_goes_on_where_it_was(page):
    """With its own sentence, whatever is in the box by then."""
    more = page.locator("#map-more")
    page.fill("#sentence textarea", "Two dogs bark.")
    opened(page, "map")
    expect(more).to_be_hidden()  # the recording is whole
    page.click("#map-go")
    wait_in(page, "map", "d.state === 'running' && +d.readings >= 3")
    expect(more).to_be_hidden()
    page.click("#map-stop")
    wait_in(page, "map", "d.state === 'stopped'")
    read = page.evaluate("() => window.leakscopeMap.report")
    page.get_by_role("tab", name="Attack", exact=True).click()
    page.fill("#sentence textarea", "No dog barks.")
    page.get_by_role("tab", name="Map", exact=True).click()
    more.click()
    wait_in(page, "map", f"d.state === 'running' && +d.readings > {len(read['readings'])}")
    page.click("#map-stop")
    wait_in(page, "map", "d.state === 'stopped'")
    now = page.evaluate("() => window.leakscopeMap.report")
    assert now["readings"][: len(read["readings"])] == read["readings"]
    assert now["asked"]["sentence"] == read["asked"]["sentence"] == "Two dogs bark."
    assert now["total"] == read["total"]
    places = [(row["slice"], row["layer"]) for row in now["readings"]]
    assert len(set(places)) == len(places)


def test_thirty_layers_of_seven_matrices_are_a_line_each(browser, server):
    """On a phone, where there is the least room: nothing wraps, and no figure is cut."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"{server}?model=smollm2&slice=ffn-out&layers=25")
    page.wait_for_selector(".ls-stage[data-state=recorded]")
    page.locator(".ls-layer").nth(29).wait_for(state="attached")
    lines = page.evaluate(
        """() => [...document.querySelectorAll('.ls-layer')].map((layer) =>
            new Set([...layer.children].map((block) => Math.round(block.getBoundingClientRect().top))).size)"""
    )
    assert lines == [1] * 30
    leaking = page.locator(".ls-block-ffn-out[aria-pressed=true]").bounding_box()
    stack = page.locator(".ls-layers").bounding_box()
    assert stack["y"] <= leaking["y"] <= stack["y"] + stack["height"] - leaking["height"]  # scrolled into sight
    opened(page, "map")
    names = ["query", "key", "value", "attention-output", "ffn-gate", "ffn-in", "ffn-out"]
    row = {"recover": 100, "exact": True, "seconds": 12.3, "share": 1, "reason": "", "text": ""}
    rows = [{**row, "slice": name, "layer": layer} for layer in range(30) for name in names]
    report = {"run": "x", "title": "", "model": "smollm2", "layers": 30, "total": 212, "budget": 5, "todo": []}
    report |= {"columns": {name: name[:4] for name in names}, "readings": rows, "now": None, "left": 9, "over": False}
    page.evaluate("(report) => window.leakscopeMap.receive(report)", report)
    cells = page.locator(".ls-line .ls-cell:not(.ls-wide *)")
    assert cells.count() == 210
    boxes = [cell.bounding_box() for cell in cells.all()]
    assert len({round(box["y"]) for box in boxes}) == 30
    for score in page.locator(".ls-score").all():
        assert score.evaluate("(node) => node.scrollWidth <= node.parentElement.clientWidth")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.close()


def test_a_recorded_place_keeps_the_sentence_and_the_stage_says_what_it_shows(page):
    """Only the default's own place has a recording; no other one's is played in its stead."""
    page.fill("#sentence textarea", "Two dogs bark.")
    opened(page, "map")
    page.get_by_role("button", name=re.compile("^value of layer 4")).click()
    page.wait_for_function(
        "() => document.querySelectorAll('.ls-block-value')[4]?.ariaPressed === 'true'", timeout=LONG
    )
    expect(page.locator("#sentence textarea")).to_have_value("Two dogs bark.")
    expect(page.locator("#shown")).to_contain_text("Shown: another sentence")
    assert "attention query of layer 3" in page.locator(".ls-stage .ls-title").inner_text()
    page.get_by_role("tab", name="Map", exact=True).click()
    page.get_by_role("button", name=re.compile("^query of layer 3")).click()
    page.wait_for_function(
        "() => document.querySelectorAll('.ls-block-query')[3]?.ariaPressed === 'true'", timeout=LONG
    )
    wait_for(page, "d.state === 'recorded' && +d.shown === +d.frames - 1")  # its own run, played to its end
    expect(page.locator("#sentence textarea")).to_have_value("Two dogs bark.")


def test_an_attack_takes_the_place_of_a_map_under_way(page):
    page.fill("#sentence textarea", "Two dogs bark.")
    opened(page, "map")
    page.click("#map-go")
    wait_in(page, "map", "d.state === 'running'")
    page.get_by_role("tab", name="Attack", exact=True).click()
    expose(page, "query", 0)
    attack(page)
    wait_in(page, "map", "d.state === 'stopped'")


def test_a_sweep_shows_its_points_and_replays_them(page):
    page.fill("#sentence textarea", "Two dogs bark.")
    expose(page, "query", 0)
    opened(page, "sweep")
    page.wait_for_timeout(1000)  # a field that has just appeared has been seen to lose what is typed into it
    page.locator("#strengths textarea").fill("1e-7, 1e-6")
    page.click("#sweep-go")
    wait_in(page, "sweep", "d.state === 'done'")
    assert page.locator(".ls-point").count() == 2
    page.get_by_role("tab", name="Attack", exact=True).click()
    page.fill("#sentence textarea", "No dog barks.")
    expose(page, "value", 5)
    page.get_by_role("tab", name="Sweep", exact=True).click()
    page.locator(".ls-point").nth(1).focus()
    page.keyboard.press("Enter")  # replays what was swept, not what the page has come to ask for since
    page.get_by_text("Defenses · noise=1e-06").wait_for()
    page.wait_for_selector("#go", state="visible")
    wait_for(page, "d.state === 'done'")
    assert page.input_value("#sentence textarea") == "Two dogs bark."
    assert "attention query of layer 0" in page.locator(".ls-stage .ls-title").inner_text()
    assert "noise=1e-06" in page.locator(".ls-stage .ls-title").inner_text()
    page.get_by_role("tab", name="Sweep", exact=True).click()
    with page.expect_download() as saved:
        page.locator("#sweep").get_by_role("button", name="PNG").click()
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")


def test_wrong_strengths_are_said_in_the_picture(page):
    opened(page, "sweep")
    choose(page, "#sweep-defense", "prune")
    page.wait_for_function("() => document.querySelector('#strengths textarea').value.startsWith('0.5, 0.8')")
    page.locator("#strengths textarea").fill("much")
    page.click("#sweep-go")
    wait_in(page, "sweep", "d.state === 'error'")
    assert "the strength of prune is 'much'" in page.locator("#sweep .ls-progress").inner_text()


def test_hostile_text_stays_text(page):
    opened(page, "map")
    row = {"slice": "query", "layer": 0, "recover": 100, "exact": True, "seconds": 1, "share": 1, "reason": ""}
    row["text"] = "<img src=x onerror=window.hacked=1>"
    report = {
        "run": "x",
        "title": row["text"],
        "model": "minilm",
        "layers": 6,
        "total": 38,
        "budget": 5,
        "todo": [],
        "columns": COLUMNS,
    }
    page.evaluate(
        "(text) => window.leakscopeMap.receive(JSON.parse(text))",
        json.dumps({**report, "readings": [row], "now": None, "left": 3, "over": False}),
    )
    page.locator(".ls-cell").nth(1).hover()
    page.locator("#map .ls-found", has_text="<img src=x").wait_for()
    assert page.locator("#map img").count() == 0
    assert page.evaluate("() => window.hacked") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["map", "sweep"])
def test_nothing_overflows_on_a_phone(browser, server, name, theme):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"{server}?__theme={theme}")
    page.wait_for_selector(".ls-stage[data-state=recorded]")
    wait_for(page, "+(d.drawn2d ?? 0) > 0")
    opened(page, name)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    for cell in page.locator(".ls-score").all():
        assert cell.evaluate("(node) => node.scrollWidth <= node.parentElement.clientWidth")
    box = page.locator(f"#{name} .ls-survey").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    page.close()
