"""The tab Results, in a real browser."""

import json

import pytest
from playwright.sync_api import Page

from demo.bench.defense_tables import STUDIES
from demo.bench.paper_tables import TABLES

BAD = "<img src=x onerror=window.hacked=1>"
PAPER = {
    "name": "tag4",
    "title": BAD,
    "source": f"{BAD} (https://example.org/paper)",
    "about": BAD,
    "command": BAD,
    "header": ["how", "recover %", "sentences", "ours: TAG, recover %", "ours: TAG, median s", "ours: best, recover %"],
    "rows": [["normal", "41.6", "3", "20.0", "9.1", "100.0"], [BAD, "", "0", "not here: no network"]],
}
NOISE = {
    "name": "dp",
    "title": "Noise",
    "source": "no address",
    "about": "",
    "command": "",
    "curve": {"group": 0, "x": 1, "y": 3, "hover": 2},
    "header": ["slice", "sigma", "epsilon", "exact"],
    "rows": [["all", "1e-06", "none", "100.0"], ["all", "0.5", "1.2", "0.0"], ["layer 3", "1e-06", "none", "90.0"]],
}
MISSING = {**PAPER, "name": "tag9", "header": [], "rows": [], "command": "python -m measure"}


def opened(page: Page) -> None:
    page.get_by_role("tab", name="Results", exact=True).click()
    page.wait_for_selector(".ls-results[data-tables]")


def given(page: Page) -> None:
    """The tab with tables of the test's own."""
    opened(page)
    page.evaluate(
        """async (text) => {
            const { Results } = await import(new URL('static/assets/tables/results.js', document.baseURI));
            new Results(document.querySelector('.ls-results'), { plotly: 'static/plotly.min.js' }).show(text);
        }""",
        json.dumps([NOISE, PAPER, MISSING]),
    )


def test_every_table_is_there_or_says_how_to_make_it(page):
    opened(page)
    assert page.locator(".ls-results section").count() == len(STUDIES) + len(TABLES)
    for section in page.locator(".ls-results section").all():
        name, there = section.get_attribute("data-table"), section.locator("table").count() == 1
        assert section.locator(".ls-source a").get_attribute("href").startswith("https://arxiv.org/")
        if there:
            address = section.get_by_role("link", name="CSV").get_attribute("href")
            assert page.request.get(f"{page.url.split('?')[0]}{address}").ok
        else:
            command = f"{name} --sentences" if name in STUDIES else f"--only {name}"
            assert command in section.locator(".ls-missing code").inner_text()


def test_our_columns_are_told_apart_and_text_stays_text(page):
    given(page)
    paper = page.locator("[data-table=tag4]")
    assert paper.locator("thead tr").first.locator("> *").all_inner_texts() == [
        "",
        "published",
        "ours",
        "ours, TAG",
        "ours, best",
    ]
    assert paper.locator("tbody tr").first.locator("[data-ours=true]").all_inner_texts() == [
        "3",
        "20.0",
        "9.1",
        "100.0",
    ]
    colours = [
        paper.locator(f"tbody td[data-ours={ours}]").first.evaluate("(cell) => getComputedStyle(cell).backgroundColor")
        for ours in ("true", "false")
    ]
    assert colours[0] != colours[1]
    assert paper.locator("tbody tr").nth(1).locator("td").last.get_attribute("colspan") == "3"
    assert paper.locator(".ls-source a").get_attribute("href") == "https://example.org/paper"
    assert page.locator("[data-table=tag9] code").inner_text() == "python -m measure"
    assert page.locator("#results img").count() == 0
    assert page.evaluate("() => window.hacked") is None


def test_the_noise_is_drawn_as_a_line_for_each_slice(page):
    given(page)
    page.wait_for_selector(".ls-curve-box[data-drawn='2']")
    assert page.locator(".ls-curve-box .scatterlayer .trace").count() == 2
    assert "all: 100 % at 0.000001, 0 % at 0.5" in page.locator(".ls-curve-box").get_attribute("aria-label")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_tables_scroll_in_their_own_box_on_a_phone(browser, server, theme):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"{server}?__theme={theme}")
    page.wait_for_selector(".ls-stage[data-state=recorded]")
    given(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    box = page.locator("[data-table=tag4] .ls-scroll")
    assert box.evaluate("(node) => node.scrollWidth > node.clientWidth")
    page.close()
