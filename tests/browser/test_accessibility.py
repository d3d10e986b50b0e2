"""Without a mouse, without looking, without motion."""

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, expect

from demo.victim.models import outline
from demo.victim.slices import matrices_of
from tests.browser.test_page import LONG, attack, expose, state, wait_for

COLUMNS = {name: slice.short for name, slice in matrices_of(outline("minilm")).items()}
PLACES = "#sentence, #go, #stop, #copy-link, #preset, #label, #how, #weights, #drawing, #seconds, #stage"
FOCUS = """(places) => {
    const node = document.activeElement, style = getComputedStyle(node), box = node.getBoundingClientRect();
    const id = node.closest(places)?.id ?? '';
    const name = node.getAttribute('aria-label') || node.innerText?.trim() || node.placeholder || '';
    const ring = parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== 'none';
    return { id, name, ring, seen: box.width > 0 && box.height > 0, tag: node.tagName };
}"""


@pytest.fixture
def calm(browser: Browser, server: str) -> Iterator[Page]:
    """The page of someone who wants less motion, in a window of the given size."""
    page = browser.new_page(viewport={"width": 1440, "height": 1000}, reduced_motion="reduce")
    page.set_default_timeout(LONG)
    page.goto(f"{server}?seconds=999")  # with a notice
    page.wait_for_selector(".ls-stage[data-state=recorded]")
    page.locator(".ls-notices").wait_for()
    yield page
    page.close()


def violations(page: Page) -> list[dict[str, Any]]:
    """What axe-core finds, light and dark: each rule with the places that break it."""
    page.evaluate(AXE_SCRIPT)
    found = []
    for dark in (False, True):
        page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", dark)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        told = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
        for rule in told["violations"]:
            places = [f"{node['target'][0]}: {node['failureSummary'][:200]}" for node in rule["nodes"][:5]]
            found.append({"rule": rule["id"], "dark": dark, "places": places})
    return found


def tabs(page: Page) -> list[str]:
    return page.locator("#tabs > .tab-wrapper [role=tab]").all_inner_texts()


def test_axe_finds_nothing_after_a_run(calm):
    """With everything open that can be opened."""
    for closed in ("#how", "#defenses", "#advanced"):
        calm.click(f"{closed} button")
    calm.get_by_label("noise", exact=True).check()
    calm.get_by_label("noise multiplier").wait_for()
    calm.get_by_label("noise", exact=True).uncheck()
    expose(calm, "query", 0)  # a span, with its strip of candidates
    attack(calm)
    calm.get_by_role("button", name="Compare with the truth").click()
    assert violations(calm) == []
    calm.get_by_role("button", name="Table", exact=True).click()
    assert violations(calm) == []


def test_axe_finds_nothing_in_the_other_tabs(calm):
    found = {}
    for name in tabs(calm)[1:]:
        calm.get_by_role("tab", name=name, exact=True).click()
        calm.wait_for_timeout(1000)  # what it shows is fetched
        found[name] = violations(calm)
    assert not any(found.values()), found


def test_a_maps_figures_are_read_on_every_shade(calm):
    calm.get_by_role("tab", name="Map", exact=True).click()
    calm.wait_for_selector("#map .ls-survey[data-state=recorded]")
    places = [(name, layer) for layer in range(6) for name in COLUMNS]
    row = {"text": "", "exact": False, "seconds": 1, "share": 1, "reason": ""}
    rows = [
        {**row, "slice": name, "layer": layer, "recover": rate}
        for (name, layer), rate in zip(places, range(30, 102, 2), strict=True)
    ]
    report = {
        "run": "x",
        "title": "",
        "model": "minilm",
        "layers": 6,
        "total": 38,
        "budget": 5,
        "todo": [],
        "columns": COLUMNS,
    }
    report |= {"readings": rows, "now": None, "left": 0, "over": True}
    calm.evaluate("(report) => window.leakscopeMap.receive(report)", report)
    calm.locator("#map .ls-rate", has_text="100").wait_for()
    assert violations(calm) == []


def test_nothing_moves_by_itself_for_those_who_want_calm(calm):
    """The recording shows its end, and plays when asked to."""
    last = int(state(calm)["frames"]) - 1
    assert state(calm)["shown"] == f"{last}"
    expect(calm.locator(".ls-headline")).to_contain_text("Certified")
    calm.wait_for_timeout(700)
    assert state(calm)["shown"] == f"{last}"
    assert calm.evaluate("() => document.getAnimations().length") == 0
    calm.get_by_role("button", name="Play", exact=True).click()
    wait_for(calm, f"+d.shown > 0 && +d.shown < {last}")


def test_the_tokens_are_a_table_too(page):
    page.get_by_role("button", name="Table", exact=True).press("Enter")
    page.evaluate(
        """() => {
            const start = { truth: ['a', 'b', 'c'], breaks: [2], truth_points: [[0, 0, 0], [1, 1, 1], [2, 2, 2]] };
            const frame = { tokens: ['a', 'c', '<b>'], points: start.truth_points, marks: '=~x', sure: [100, 60, 5],
                others: ['', 'd e', '<i>'], step: 1, seconds: 0, left: 9, recover: 60, rougeL: 50 };
            window.leakscope.receive({ run: 'told', start, frame });
        }"""
    )
    wait_for(page, "d.run === 'told' && +d.frames === 1")
    table = page.get_by_role("table", name="The attacker's guess, token by token")
    rows = [row.inner_text().split("\t") for row in table.get_by_role("row").all()]
    assert rows == [
        ["Sentence, place", "Token", "State", "Confidence", "Runners-up"],
        ["sentence 1, 1", "a", "✓ in place", "100 %", "none"],
        ["sentence 1, 2", "c", "↔ right word in the wrong place", "60 %", "d, e"],
        ["sentence 2, 1", "<b>", "✗ wrong", "5 %", "<i>"],
    ]
    assert not page.locator(".ls-tilebox").is_visible()
    page.get_by_role("button", name="Compare with the truth").press("Space")
    page.get_by_role("columnheader", name="Truth").wait_for()
    page.get_by_role("button", name="Table", exact=True).press("Enter")
    assert page.locator(".ls-tilebox").is_visible()
    assert not table.is_visible()


@pytest.mark.parametrize(("width", "link"), [(390, ""), (1920, "?present=1&hide=attack,advanced,defenses,model")])
def test_a_teachers_path_without_a_mouse(browser, server, width, link):
    """From the sentence to the verdict and back through the run, with a visible place at every step."""
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_default_timeout(LONG)
    page.goto(server + link)
    page.wait_for_selector(".ls-stage[data-state=recorded]")
    passed = walk(page, "sentence")
    page.keyboard.press("Control+a")
    page.keyboard.type("Two dogs bark.")
    passed += walk(page, "go")
    page.keyboard.press("Enter")
    wait_for(page, "d.state === 'done'")
    assert page.locator(".ls-tile .ls-word").all_text_contents() == ["two", "dogs", "bark", "."]
    page.locator(".ls-stage > [aria-live]", has_text="Certified: this sentence").wait_for(state="attached")
    passed += walk(page, "stage", "Table")
    page.keyboard.press("Space")
    page.get_by_role("table", name="token by token").wait_for()
    passed += walk(page, "stage", "First frame")
    page.keyboard.press("Enter")
    wait_for(page, "+d.shown === 0")
    page.keyboard.press("ArrowRight")
    wait_for(page, "+d.shown === 1")
    assert {"stop", "copy-link", "preset", "label", "how", "weights", "drawing", "seconds"} <= {
        at["id"] for at in passed
    }
    assert [at for at in passed if not at["ring"] or not at["seen"]] == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    page.close()


def walk(page: Page, place: str, name: str = "") -> list[dict[str, Any]]:
    """Presses Tab until the place has the keyboard; all places passed on the way."""
    passed = []
    for _ in range(80):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUS, PLACES)
        if at["tag"] == "BODY":
            continue
        passed.append(at)
        if at["id"] == place and at["name"].startswith(name):
            return passed
    raise AssertionError(f"Tab never came to {place} {name}: {passed}")
