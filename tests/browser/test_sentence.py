"""The sentence's box: nothing that a person typed is lost, and keys do what people expect of them."""

from playwright.sync_api import Locator, Page, expect

from demo.ui.choices import DEFAULT, PRESETS
from tests.browser.test_page import LONG, attack, choose, expose, state, tiles, wait_for

OWN = "Two dogs bark."
ANOTHER = "Shown: another sentence. Press Attack for yours."


def box(page: Page) -> Locator:
    return page.locator("#sentence textarea")


def undo(page: Page) -> Locator:
    return page.get_by_role("button", name="Undo")


def chip(page: Page, name: str) -> Locator:
    return page.get_by_role("toolbar", name="Examples").get_by_role("button", name=name, exact=True)


def test_an_example_is_one_tap_and_a_typed_sentence_comes_back(page):
    chip(page, "password").click()
    expect(box(page)).to_have_value(PRESETS["password"])
    expect(undo(page)).to_be_hidden()  # nobody typed what it replaced
    box(page).fill(OWN)
    chip(page, "debt").click()
    chip(page, "recipe").click()
    expect(box(page)).to_have_value(PRESETS["recipe"])
    page.get_by_role("status").filter(has_text="Your text was replaced.").wait_for()
    page.locator("#said", has_text="9 tokens").wait_for()  # and the server knows it
    undo(page).click()
    expect(box(page)).to_have_value(OWN)
    expect(undo(page)).to_be_hidden()
    page.locator("#said", has_text="4 tokens").wait_for()
    attack(page)
    assert tiles(page) == ["two", "dogs", "bark", "."]


def test_undo_works_by_keyboard_and_loses_nothing_itself(page):
    box(page).fill(OWN)
    chip(page, "plan").focus()
    page.keyboard.press("Space")
    expect(box(page)).to_have_value(PRESETS["plan"])
    box(page).focus()
    page.keyboard.press("Control+z")
    expect(box(page)).to_have_value(OWN)
    chip(page, "plan").click()
    box(page).press_sequentially(" Hush!")  # the example, made one's own
    theirs = box(page).input_value()
    page.keyboard.press("Tab")
    expect(undo(page)).to_be_focused()
    page.keyboard.press("Enter")
    expect(box(page)).to_have_value(OWN)
    expect(box(page)).to_be_focused()
    undo(page).click()
    expect(box(page)).to_have_value(theirs)


def test_tab_passes_the_examples_and_changes_nothing(page):
    """They are one stop on the way, nothing opens, and the next click is Attack's."""
    box(page).fill(OWN)
    box(page).focus()
    passed = []
    for _ in range(4):
        page.keyboard.press("Tab")
        passed.append(page.evaluate("() => document.activeElement.innerText.trim()"))
    assert passed == [next(iter(PRESETS)), "Attack", "Stop", "Copy link"]
    chip(page, next(iter(PRESETS))).focus()
    page.keyboard.press("ArrowRight")
    expect(chip(page, list(PRESETS)[1])).to_be_focused()
    expect(box(page)).to_have_value(OWN)
    page.click("#go")
    wait_for(page, "d.state === 'done'")
    assert tiles(page) == ["two", "dogs", "bark", "."]


def test_a_smaller_batch_gives_its_lines_back(page):
    page.click("#how button")
    box(page).fill("one\ntwo\nthree")
    page.wait_for_function("() => document.querySelector('#batch input').value === '3'")
    choose(page, "#batch", "1")
    expect(box(page)).to_have_value("one")
    undo(page).click()
    expect(box(page)).to_have_value("one\ntwo\nthree")
    page.wait_for_function("() => document.querySelector('#batch input').value === '3'")
    choose(page, "#batch", "4")  # which adds a line, and takes none
    expect(box(page)).to_have_value(f"one\ntwo\nthree\n{DEFAULT.sentence}")


def test_a_link_opened_over_the_page_keeps_it(page, server):
    """One that differs only behind the #: nothing is loaded anew, and what it does not say is as in a fresh page."""
    page.wait_for_function("() => window.leakscopeLinks?.opened")
    box(page).fill(OWN)
    expose(page, "value", 5)
    page.evaluate("() => { window.same = true; location.hash = '#sentence=Guten%20Tag&speed=2'; }")
    expect(box(page)).to_have_value("Guten Tag", timeout=LONG)
    expect(page.locator(".ls-block-query").nth(3)).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".ls-stage .ls-pace")).to_have_value("2")
    assert page.evaluate("() => window.same")
    undo(page).click()
    expect(box(page)).to_have_value(OWN)


def test_enter_attacks_and_shift_enter_adds_a_line(page):
    box(page).fill(OWN)
    expose(page, "embeddings")
    box(page).press("End")
    box(page).press("Shift+Enter")
    box(page).press_sequentially("So it goes.")
    expect(box(page)).to_have_value(f"{OWN}\nSo it goes.")
    page.locator("#said", has_text="2 sentences").wait_for()
    assert state(page)["state"] == "recorded"  # nothing has begun
    box(page).press("Enter")
    wait_for(page, "d.state === 'done'")
    expect(box(page)).to_have_value(f"{OWN}\nSo it goes.")
    assert page.locator(".ls-sentence:visible").count() == 2


def test_the_stage_says_what_it_shows_where_it_is_not_what_is_asked_for(page):
    note = page.locator("#shown")
    expect(note).to_have_text("")
    box(page).fill(OWN)
    expect(note).to_have_text(ANOTHER)
    shown = state(page)["shown"]
    page.wait_for_timeout(1500)
    assert state(page)["shown"] == shown  # it stands still, at its end
    box(page).fill(DEFAULT.sentence)
    expect(note).to_have_text("")
    expose(page, "value", 0)
    expect(note).to_have_text("Shown: attention query of layer 3. Press Attack for yours.")
    attack(page)
    expect(note).to_have_text("")
    page.click("#how button")
    page.locator("#dropout input[type=number]").fill("0.1")
    page.keyboard.press("Tab")
    expect(note).to_have_text("Shown: without dropout 0.1. Press Attack for yours.")


def test_space_plays_and_pauses_wherever_the_focus_is(page):
    play = page.locator("#stage").get_by_role("button", name="Play", exact=True)
    pause = page.locator("#stage").get_by_role("button", name="Pause", exact=True)
    attack(page)
    runs = state(page)["run"]
    page.keyboard.press("Home")  # Attack, just clicked, has the focus
    page.locator(".ls-stage .ls-slider").fill("0")
    page.locator(".ls-pace").select_option("0.25")
    pause_after_space(page, "#go", play, pause, click=True)
    assert state(page)["run"] == runs  # it was not pressed
    pause_after_space(page, ".ls-stage .ls-slider", play, pause)
    pause_after_space(page, "#seconds input[type=range]", play, pause)
    pause_after_space(page, None, play, pause)
    box(page).focus()
    box(page).press("End")
    page.keyboard.press("Space")
    expect(box(page)).to_have_value(f"{DEFAULT.sentence} ")
    expect(play).to_be_visible()
    box(page).fill(DEFAULT.sentence)
    block = page.locator(".ls-block-key").nth(1)  # with the keyboard, a button is pressed
    block.focus()
    page.keyboard.press("Space")
    expect(block).to_have_attribute("aria-pressed", "true")
    page.click("#defenses button")
    page.get_by_label("sign", exact=True).focus()
    page.keyboard.press("Space")
    expect(page.get_by_label("sign", exact=True)).to_be_checked()
    expect(play).to_be_visible()


def pause_after_space(page: Page, place: str | None, play: Locator, pause: Locator, click: bool = False) -> None:
    """Space there starts the playback, and stops it again."""
    page.evaluate("() => { window.leakscope.player.seek(0); document.activeElement.blur(); }")
    if click:  # as after a click: the focus is there, the keyboard was not used to get there
        page.locator(place).dispatch_event("pointerdown")
    if place:
        page.locator(place).focus()
    page.keyboard.press("Space")
    expect(pause).to_be_visible()
    page.keyboard.press("Space")
    expect(play).to_be_visible()
