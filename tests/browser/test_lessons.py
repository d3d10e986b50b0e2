"""Lessons, in a real browser: they play from recordings, set the controls and point."""

import pytest
from playwright.sync_api import Page, expect

from demo.screen.lessons import PLACES, glossary, lessons
from demo.ui.choices import DEFAULT
from tests.browser.test_page import LONG, attack, choose, expose, state, tiles, wait_for

LESSONS = lessons()


def on_step(page: Page, name: str, step: int) -> None:
    page.wait_for_selector(f".ls-lesson[data-lesson={name}][data-step='{step}']:visible", timeout=LONG)


def shown(page: Page, name: str, n: int) -> None:
    """The step's part of the screen is outlined and in view, and its recording is on the stage."""
    step = LESSONS[name].steps[n]
    on_step(page, name, n + 1)
    page.wait_for_function(
        """([place]) => {
            const pointed = document.querySelectorAll('.ls-pointed'), [part] = pointed;
            if (pointed.length !== 1 || !part.matches(place)) return false;
            const { top, bottom } = part.getBoundingClientRect();
            return bottom > 0 && top < innerHeight && getComputedStyle(part).outlineStyle === 'solid';
        }""",
        arg=[PLACES[step.point]],
        timeout=LONG,
    )
    if step.frame == "last":
        wait_for(page, "+d.frames > 0 && +d.shown === +d.frames - 1")
    elif step.frame != "play":
        wait_for(page, f"+d.frames > 0 && +d.shown === {0 if step.frame == 'first' else step.frame}")


@pytest.mark.parametrize("name", LESSONS)
def test_every_step_can_be_walked_through(page, name):
    """From the tab to the last step: each points, each sets the controls, and nothing runs meanwhile."""
    page.get_by_role("tab", name="Lessons").click()
    page.get_by_role("link", name=LESSONS[name].title).click()
    for n, step in enumerate(LESSONS[name].steps):
        shown(page, name, n)
        assert page.locator(".ls-lesson-progress").inner_text() == f"{n + 1} of {len(LESSONS[name].steps)}"
        assert state(page)["state"] == "recorded"
        attack = step.controls.get("attack", "best")
        page.wait_for_function("([a]) => document.querySelector('#attack-name input').value === a", arg=[attack])
        layers = step.controls.get("layers", [])
        if layers:
            block = page.locator(f".ls-block-{step.controls['slice']}").nth(layers[0])
            expect(block).to_have_attribute("aria-pressed", "true")
        if n + 1 < len(LESSONS[name].steps):
            page.locator(".ls-lesson .ls-on").click()


def test_a_lesson_goes_by_keys_and_can_be_left(page):
    page.fill("#sentence textarea", "Two dogs bark.")
    page.get_by_role("tab", name="Lessons").click()
    page.get_by_role("link", name="One matrix of 0.65 % leaks").click()
    on_step(page, "matrix", 1)
    for key, step in (("ArrowRight", 2), ("PageDown", 3), ("ArrowLeft", 2), ("PageUp", 1), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        on_step(page, "matrix", step)
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="span").click()
    assert page.locator(".ls-meaning").inner_text() == f"span: {glossary()['span']}"
    expect(page.locator("#sentence textarea")).to_have_value(DEFAULT.sentence)
    page.keyboard.press("Escape")
    expect(page.locator(".ls-lesson")).to_be_hidden()
    assert page.locator(".ls-pointed").count() == 0
    expect(page.locator("#sentence textarea")).to_have_value("Two dogs bark.")  # theirs again
    attack(page)
    assert tiles(page) == ["two", "dogs", "bark", "."]
    assert "attention query of layer 3 · best" in page.locator(".ls-stage .ls-title").inner_text()


def test_a_lesson_replaces_a_run_and_a_run_replaces_its_recording(page):
    expose(page, "layer", 4)
    page.click("#go")
    wait_for(page, "d.state === 'running'")
    page.evaluate("() => window.leakscopeLesson.open('dropout')")
    shown(page, "dropout", 0)
    page.wait_for_timeout(1000)
    assert state(page)["state"] == "recorded"
    page.get_by_text("How the client trains · dropout 0.3").wait_for()
    expect(page.locator("#dropout")).to_be_visible()
    attack(page)
    assert tiles(page)[0] == "the"
    assert "dropout 0.3" in page.locator(".ls-stage .ls-title").inner_text()
    page.locator(".ls-lesson .ls-on").click()
    shown(page, "dropout", 1)


def test_after_a_lesson_every_setting_is_the_persons_own_again(page):
    """The last lesson turns noise on, and shows another slice with another attack."""
    page.fill("#sentence textarea", "Two dogs bark.")
    expose(page, "value", 5)
    choose(page, "#attack-name", "span")
    page.evaluate("() => window.leakscopeLesson.open('noise')")
    shown(page, "noise", 0)
    while page.locator(".ls-lesson .ls-on").is_enabled() and "noise=0.1" not in page.locator("#defenses").inner_text():
        page.locator(".ls-lesson .ls-on").click()
        page.wait_for_timeout(300)
    expect(page.locator("#defenses")).to_contain_text("noise=0.1")
    page.keyboard.press("Escape")
    expect(page.locator(".ls-lesson")).to_be_hidden()
    expect(page.locator("#defenses")).not_to_contain_text("noise=0.1")
    expect(page.locator("#sentence textarea")).to_have_value("Two dogs bark.")
    expect(page.locator("#attack-name input")).to_have_value("span")
    expect(page.locator(".ls-block-value").nth(5)).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize(("name", "there"), [("noise", True), ("<b>", False), ("constructor", False)])
def test_a_link_opens_a_lesson_if_there_is_one(browser, server, name, there):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"{server}?lesson={name}")
    page.wait_for_selector(".ls-stage[data-state=recorded]", timeout=LONG)
    if there:
        shown(page, name, 0)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        panel, part = page.locator(".ls-lesson").bounding_box(), page.locator(".ls-pointed").bounding_box()
        assert part["y"] < panel["y"]
    else:
        page.wait_for_function("() => window.leakscopeLesson")
        expect(page.locator(".ls-lesson")).to_be_hidden()
    page.close()
