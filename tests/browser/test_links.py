"""Links, opened and copied in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.test_page import LONG, state, wait_for

HOSTILE = "<img src=x onerror=window.hacked=1>"


@pytest.fixture
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """Someone who lets the page write to the clipboard."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 1000}, permissions=["clipboard-read", "clipboard-write"]
    )
    context.set_default_timeout(LONG)
    yield context
    context.close()


def opened(visitor: BrowserContext, address: str) -> Page:
    page = visitor.new_page()
    page.goto(address)
    page.wait_for_selector(".ls-stage[data-state=recorded]", state="attached")
    page.wait_for_function("() => window.leakscopeLinks")
    return page


def copied(page: Page) -> str:
    """By keyboard, as everything can be."""
    page.locator("#copy-link").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Link copied. It holds the sentence and every setting.").wait_for()
    return page.evaluate("() => navigator.clipboard.readText()")


def test_a_link_sets_the_controls_and_says_what_it_did_not_follow(visitor, server):
    asked: list[str] = []
    visitor.on("request", lambda request: asked.append(request.url))
    page = opened(
        visitor,
        f"{server}?v=1&sentence=Two%20dogs{HOSTILE}%0Abark&model=tinybert4&weights=uniform&slice=value&layers=1,9"
        f"&attack=tag&tag.rate=0.5&seconds=999&seed=7&label=turns&knows=label&dropout=0.1&frozen=1&speed=2"
        f"&defenses=noise&noise.noise_multiplier=0.5&projection=3d&hide=advanced&slise={HOSTILE}",
    )
    page.get_by_text("seconds is '999' in the link, which this page does not take: it became 90.").wait_for()
    page.get_by_text("layers is '1,9' in the link, which this page does not take: it became 1,3.").wait_for()
    page.get_by_text("'slise' is no field of a link.").wait_for()
    assert page.locator("#sentence textarea").input_value() == f"Two dogs{HOSTILE}\nbark"
    assert page.locator(".ls-pace").input_value() == "2"
    assert page.get_by_role("tab", name="3D").get_attribute("aria-selected") == "true"
    page.get_by_text("Defenses · noise=0.5").wait_for()  # and the notes have followed
    page.get_by_text("How the client trains · dropout 0.1 · embeddings frozen · batch of 2").wait_for()
    page.wait_for_function("() => document.querySelectorAll('.ls-block-value[aria-pressed=true]').length === 2")
    assert page.evaluate("() => window.hacked") is None
    assert page.locator("#links img").count() == 0
    assert state(page)["state"] == "recorded"  # a link starts nothing
    again = copied(page)
    expected = (
        f"{server}?v=1&model=tinybert4&weights=uniform&slice=value&layers=1,3&attack=tag&label=turns&knows=label"
        "&seconds=90&seed=7&dropout=0.1&frozen=1&defenses=noise&noise.noise_multiplier=0.5&tag.rate=0.5"
        "&projection=3d&speed=2&hide=advanced#sentence=Two%20dogs%3Cimg%20src%3Dx%20onerror%3Dwindow.hacked%3D1%3E%0Abark"
    )
    assert again == expected
    assert "dogs" in asked[0]  # as it was given
    assert not any("dogs" in address for address in asked[1:])
    page.get_by_role("button", name="Dismiss").click()
    assert not page.locator(".ls-notices").is_visible()


def test_a_copied_link_opens_as_it_was(visitor, server):
    link = "?v=1&slice=ffn-in&layers=0,2&attack=search&certified.patience=5&seed=3#sentence=Guten%20Tag%2C%20Welt%21"
    page = opened(visitor, server + link)
    page.wait_for_function("() => document.querySelectorAll('.ls-block-ffn-in[aria-pressed=true]').length === 2")
    first = copied(page)
    assert "&layers=0,2&attack=search&" in first
    page.evaluate("(link) => { location.href = link; }", first.replace("Welt", "Mond"))  # differs only behind the #
    page.wait_for_function("() => document.querySelector('#sentence textarea')?.value === 'Guten Tag, Mond!'")
    page.wait_for_function("() => window.leakscopeLinks")
    assert copied(page) == first.replace("Welt", "Mond")


def test_a_refused_clipboard_leaves_the_link_to_be_copied_by_hand(page, server):
    page.evaluate("() => { navigator.clipboard.write = () => Promise.reject(new Error('no')); }")
    page.click("#copy-link")
    page.get_by_text("copy the link from here").wait_for(timeout=LONG)
    field = page.get_by_label("The link to this experiment")
    assert field.input_value().startswith(f"{server}?v=1&model=minilm&")
    chosen = page.evaluate("() => { const f = document.activeElement; return f.selectionEnd - f.selectionStart; }")
    assert chosen == len(field.input_value())
    page.fill("#sentence textarea", "word " * 300)
    page.click("#copy-link")
    page.get_by_text("No link: the sentence has 300 tokens").wait_for(timeout=LONG)
    assert not field.is_visible()


def test_a_teacher_hides_controls_and_enlarges_the_page(visitor, server):
    plain = opened(visitor, server)
    parts = "['#go', '.ls-tile', '#sentence textarea'].map((place) => document.querySelector(place))"
    sizes = f"() => {parts}.map((part) => parseFloat(getComputedStyle(part).fontSize))"
    small = plain.evaluate(sizes)
    plain.close()
    page = opened(visitor, f"{server}?hide=attack,advanced,defenses,model,label&present=1&tab=map&lesson=first")
    page.wait_for_selector("#map .ls-survey[data-state=recorded]")
    assert page.evaluate("() => window.leakscopeView.lesson") == "first"
    page.get_by_role("tab", name="Attack", exact=True).click()
    wait_for(page, "d.state === 'recorded'")
    for hidden in ("#attack-name", "#about", "#advanced", "#defenses", "#model", "#label"):
        assert not page.locator(hidden).is_visible(), hidden
    for shown in ("#sentence", "#go", "#weights", "#preset", "#drawing", "#seconds", "#how"):
        assert page.locator(shown).is_visible(), shown
    for dark in (False, True):
        page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", dark)
        assert all(large >= 1.2 * before for large, before in zip(page.evaluate(sizes), small, strict=True))
    assert copied(page).split("#")[0].endswith("&hide=attack,advanced,defenses,model,label&present=1&lesson=first")
