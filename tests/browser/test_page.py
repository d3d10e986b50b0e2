"""What a person does, in a real browser."""

import json
import re
from contextlib import suppress

import pytest
from gradio_client import Client
from playwright.sync_api import Locator, Page, TimeoutError, expect

LONG = 120_000  # milliseconds, for what computes


def state(page: Page) -> dict[str, str]:
    return page.evaluate("() => ({ ...document.querySelector('.ls-stage').dataset })")


def wait_for(page: Page, condition: str) -> None:
    """Waits until the stage's data say so: wait_for(page, "d.state === 'done'")."""
    script = f"() => {{ const d = document.querySelector('.ls-stage').dataset; return {condition}; }}"
    try:
        page.wait_for_function(script, timeout=LONG)
    except TimeoutError as problem:
        said = page.locator(".ls-stage .ls-status").inner_text()
        raise AssertionError(f"{condition} did not come: {state(page)}, {said!r}") from problem


def attack(page: Page, until: str = "d.state === 'done'") -> None:
    page.click("#go")
    wait_for(page, "d.state !== 'recorded'")
    wait_for(page, until)
    if "done" in until:
        wait_for(page, "+d.shown === +d.frames - 1")  # and is drawn to its end


def tiles(page: Page) -> list[str]:
    return page.locator(".ls-tile .ls-word").all_text_contents()


def choose(page: Page, menu: str, option: str) -> None:
    page.click(f"{menu} input")
    page.get_by_role("option", name=re.compile(rf"^{option}$|{option}", re.I)).first.click()


def expose(page: Page, slice: str, layer: int = 0) -> None:
    page.locator(f".ls-block-{slice}").nth(layer).click()


def enter(page: Page, field: Locator, value: str, sign: Locator) -> None:
    """Types a number; a loaded browser has been seen to lose what was typed as the field appeared, so it may try again.

    What the app itself loses stays lost: the same value typed again changes nothing."""
    for _ in range(3):
        field.fill(value)
        field.press("Tab")
        with suppress(TimeoutError):
            return sign.wait_for(timeout=10_000)
    raise AssertionError(f"no {sign}: the field holds {field.input_value()}; {page.locator('#how').inner_text()}")


def endless(page: Page) -> None:
    """DLG on one deep layer: it never gets anywhere, a frame for each step."""
    expose(page, "layer", 4)
    choose(page, "#attack-name", "dlg")


def test_a_recorded_run_plays_when_the_page_opens(page):
    """No model, no computing: frames move by themselves."""
    assert "recorded" in page.locator(".ls-stage .ls-head").inner_text().lower()
    seen = state(page)["shown"]
    wait_for(page, f"d.state === 'recorded' && d.shown !== '{seen}'")


def test_a_default_attack_to_its_verdict(page, server):
    attack(page)
    assert tiles(page) == ["the", "patient", "was", "diagnosed", "with", "diabetes", "last", "week", "."]
    assert page.locator(".ls-tile[data-mark='=']").count() == 9
    expect(page.locator(".ls-headline")).to_contain_text("Certified: this sentence")
    assert int(state(page)["frames"]) > 1
    assert int(state(page)["drawn2d"]) > 0
    told = Client(server, verbose=False).submit(
        sentence="The patient was diagnosed with diabetes last week.", slice="query", layers=[3], api_name="/attack"
    )
    told.result(timeout=100)
    assert tiles(page) == told.outputs()[-1]["frame"]["tokens"]
    drawn = page.evaluate("() => JSON.stringify(window.leakscope.frames.at(-1).points)")
    assert json.loads(drawn) == told.outputs()[-1]["frame"]["points"]


def test_stop_ends_the_run_and_keeps_its_frames(page):
    endless(page)
    attack(page, "d.state === 'running' && +d.frames > 5")
    page.click("#stop")
    wait_for(page, "d.state === 'stopped'")
    kept = int(state(page)["frames"])
    assert kept > 5
    expect(page.locator(".ls-headline")).to_contain_text("Stopped at step")
    expose(page, "embeddings")  # and the device is free: the next run does not wait for DLG's minute
    choose(page, "#attack-name", "best")
    attack(page)
    expect(page.locator(".ls-headline")).to_contain_text("Certified")


def test_a_new_attack_replaces_the_one_under_way(page):
    endless(page)
    attack(page, "d.state === 'running' && +d.frames > 3")
    old = state(page)["run"]
    expose(page, "query", 0)
    choose(page, "#attack-name", "span")
    attack(page, f"d.state === 'done' && d.run !== '{old}'")
    assert page.locator(".ls-tile[data-mark='=']").count() == 9


def test_a_span_check_shows_its_candidates(page):
    expose(page, "query", 0)
    choose(page, "#attack-name", "span")
    attack(page)
    assert int(state(page)["frames"]) >= 9
    assert "span" in page.locator(".ls-strip").inner_text().lower()
    assert page.locator(".ls-strip circle.ls-nearest").count() == 1


def test_dropout_is_read_through_and_its_masks_are_shown(page):
    page.click("#how button")
    dropout = page.locator("#dropout input[type=number]")
    enter(page, dropout, "0.1", page.get_by_text("How the client trains · dropout 0.1"))
    expose(page, "value", 0)
    attack(page)
    assert "dropout 0.1" in page.locator(".ls-title").inner_text()
    assert page.locator(".ls-tile[data-mark='=']").count() == 9
    assert page.locator(".ls-mask:visible").count() == 9
    assert re.search(r"on at least 8\d % of its coordinates", page.locator(".ls-detail").inner_text())
    label = page.locator(".ls-tile").nth(1).get_attribute("aria-label")
    assert re.search(r"mask: \d\d % kept, \d+ % of 384 coordinates right$", label)
    page.locator(".ls-slider").fill("0")
    wait_for(page, "+d.shown === 0")
    assert page.locator(".ls-mask:visible").count() <= 1  # a slow machine's first frame comes before the first word
    enter(page, dropout, "0", page.get_by_text("How the client trains", exact=True))
    attack(page, f"d.state === 'done' && d.run !== '{state(page)['run']}'")
    assert page.locator(".ls-mask:visible").count() == 0


def test_a_defense_is_said_with_its_price(page):
    page.click("#defenses button")
    page.get_by_label("noise", exact=True).check()
    strength = page.get_by_label("noise multiplier")
    page.get_by_text("No privacy guarantee (ε above 10⁶)").wait_for()
    enter(page, strength, "1", page.get_by_text("ε = 2.1 at δ = 1e-05, for q = 0.01, 1,000 steps"))
    enter(page, strength, "0.000001", page.get_by_text("Defenses · noise=1e-06"))
    expose(page, "value", 0)
    page.get_by_text("In this step, the shared gradient keeps a cosine of 1.00").wait_for()
    attack(page)
    assert "noise=1e-06" in page.locator(".ls-title").inner_text()
    assert "keeps a cosine of 1.00 with the clean one" in page.locator(".ls-exposed").inner_text()
    expect(page.locator(".ls-headline")).to_contain_text("just the known noise")


def test_a_batch_has_a_row_for_each_sentence(page):
    page.click("#how button")
    choose(page, "#batch", "2")
    page.wait_for_function("() => document.querySelector('#said').innerText.startsWith('2 sentences, 17 tokens')")
    expose(page, "all")
    attack(page)
    rows = page.locator(".ls-sentence:visible")
    assert rows.locator(".ls-whose").all_text_contents() == ["sentence 1", "sentence 2"]
    assert rows.nth(0).locator(".ls-word").all_text_contents()[:3] == ["the", "patient", "was"]
    assert rows.nth(1).locator(".ls-word").all_text_contents()[:3] == ["my", "new", "password"]
    expect(page.locator(".ls-headline")).to_contain_text("Certified: these sentences")
    page.fill("#sentence textarea", "one\ntwo\nthree")
    page.wait_for_function("() => document.querySelector('#batch input').value === '3'")
    choose(page, "#batch", "1")
    page.wait_for_function("() => document.querySelector('#sentence textarea').value === 'one'")


def test_words_beyond_a_sentence_get_a_row_of_their_own(page):
    """Put into the stage as the server would: two sentences of two words, and a guess that is one word too long."""
    page.evaluate(
        """() => {
            const tokens = ['a', 'b', 'c', 'd', '<b>'], points = tokens.map((_, n) => [n, n, n]);
            const start = { truth: ['a', 'b', 'c', 'd'], breaks: [2], truth_points: points.slice(0, 4) };
            const frame = { tokens, points, marks: '====x', step: 1, seconds: 0, left: 9, recover: 100, rougeL: 90 };
            window.leakscope.receive({ run: 'long', start, frame });
        }"""
    )
    wait_for(page, "d.run === 'long' && +d.frames === 1")
    rows = page.locator(".ls-sentence:visible")
    rows.nth(2).wait_for()
    assert [" ".join(rows.nth(n).locator(".ls-word").all_text_contents()) for n in range(3)] == ["a b", "c d", "<b>"]
    assert rows.locator(".ls-whose").all_text_contents() == ["sentence 1", "sentence 2", "+"]


def test_frames_can_be_scrubbed_and_stepped_through_by_keys(page):
    attack(page)
    last = int(state(page)["frames"]) - 1
    slider = page.locator(".ls-slider")
    slider.focus()
    for key, expected in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last)):
        page.keyboard.press(key)
        wait_for(page, f"+d.shown === {expected}")
    slider.fill("3")
    wait_for(page, "+d.shown === 3")
    assert tiles(page) == page.evaluate("() => window.leakscope.frames[3].tokens")
    page.locator(".ls-tile").first.focus()
    page.keyboard.press("Space")
    wait_for(page, f"+d.shown === {last}")  # it plays to the end


def test_the_camera_is_kept_while_frames_arrive(page):
    endless(page)
    page.get_by_role("tab", name="3D").click()
    attack(page, "d.state === 'running' && +(d.drawn3d ?? 0) > 2")
    moved = "() => { const plot = [...document.querySelectorAll('.js-plotly-plot')].find(p => p._fullLayout.scene); "
    page.evaluate(moved + "return Plotly.relayout(plot, { 'scene.camera.eye': { x: 0.3, y: 2.1, z: 0.4 } }); }")
    wait_for(page, f"+d.frames > {int(state(page)['frames']) + 20} && +d.drawn3d > {int(state(page)['drawn3d']) + 4}")
    eye = page.evaluate(moved + "return plot._fullLayout.scene._scene.getCamera().eye; }")
    assert eye == pytest.approx({"x": 0.3, "y": 2.1, "z": 0.4}, abs=1e-6)
    page.click("#stop")


@pytest.mark.parametrize("text", ["<img src=x onerror=window.hacked=1>", "${window.hacked=1} {{window.hacked}}"])
def test_hostile_text_stays_text(page, text):
    page.fill("#sentence textarea", text)
    expose(page, "query", 0)
    attack(page)
    assert page.evaluate("() => window.hacked") is None
    assert page.locator(".ls-stage img").count() == 0
    assert "".join(tiles(page)).replace("##", "") == text.lower().replace(" ", "")


def test_wrong_sentences_are_said_beside_the_box(page):
    for text, message in (("   ", "the sentence is empty"), ("word " * 300, "300 tokens: this page takes at most 64")):
        page.fill("#sentence textarea", text)
        page.wait_for_function("([m]) => document.querySelector('#said').innerText.includes(m)", arg=[message])
        attack(page, "d.state === 'error'")
        expect(page.locator(".ls-headline")).to_contain_text(message)


def test_an_impossible_attack_says_why(page):
    choose(page, "#attack-name", "span")
    page.wait_for_function("() => document.querySelector('#about').innerText.includes('span cannot attack this')")
    attack(page, "d.state === 'error'")
    expect(page.locator(".ls-headline")).to_contain_text("no attention matrix")


def test_the_page_does_not_grow_over_three_hundred_frames(page):
    """Nodes are reused, whatever streams in; the messages are put into the stage as the server would."""
    endless(page)
    attack(page, "d.state === 'running' && +d.frames > 3")
    page.click("#stop")
    wait_for(page, "d.state === 'stopped'")
    grown = page.evaluate(
        """async () => {
            const stage = window.leakscope, [first] = stage.frames, sizes = [];
            const start = stage.start;
            for (let n = 0; n < 300; n += 1) {
                const points = first.points.map((point) => point.map((x) => x + 3 * n));
                stage.receive({ run: 'many', start, frame: { ...first, n, step: n, seconds: n / 10, points } });
                await new Promise(requestAnimationFrame);
                if (n === 50 || n === 299) sizes.push(document.querySelectorAll('*').length);
            }
            return sizes;
        }"""
    )
    assert grown[1] <= 1.05 * grown[0]


def test_two_tabs_do_not_disturb_each_other(page, browser, server):
    other = browser.new_page()
    other.goto(server)
    other.wait_for_selector(".ls-stage[data-state=recorded]")
    other.fill("#sentence textarea", "Two dogs bark.")
    page.click("#go")
    other.click("#go")
    wait_for(page, "d.state === 'done'")
    wait_for(other, "d.state === 'done'")
    assert tiles(page)[:2] == ["the", "patient"]
    assert tiles(other) == ["two", "dogs", "bark", "."]
    other.close()


def test_blocks_are_picked_with_the_keyboard(page):
    page.locator(".ls-block[aria-pressed=true]").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.ls-block-key[aria-pressed=true]') !== null")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Enter")
    page.wait_for_function("() => document.querySelectorAll('.ls-block-key[aria-pressed=true]').length === 2")
    page.wait_for_function("() => document.querySelector('.ls-exposure').innerText.includes('294,912 of 22.7 M')")


def test_quick_picks_end_with_the_last(page):
    """Answers to earlier picks come late, and must not undo later ones."""
    for layer in (0, 1, 2, 3, 4, 5):
        expose(page, "value", layer)
    page.wait_for_function("() => !document.querySelector('.ls-exposure.ls-stale')")
    page.wait_for_timeout(1000)
    assert page.locator(".ls-block[aria-pressed=true]").count() == 1
    assert page.locator(".ls-block-value").nth(5).get_attribute("aria-pressed") == "true"
    attack(page, "+d.frames > 0")
    assert "attention value of layer 5" in page.locator(".ls-title").inner_text()


def test_another_model_redraws_the_blocks(page):
    choose(page, "#model", "TinyBERT4")
    page.wait_for_function("() => document.querySelectorAll('.ls-block-query').length === 4")
    assert "97,344 of" in page.locator(".ls-exposure").inner_text()


def test_settings_follow_the_attack(page):
    page.click("#advanced button")
    assert page.get_by_label("patience").count() == 0
    choose(page, "#attack-name", "search")
    page.get_by_label("patience").wait_for()
    choose(page, "#attack-name", "tag")
    page.get_by_label("unit length").first.wait_for()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1920, 1080)])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_overflows_on_phone_or_projector(browser, server, width, height, theme, tmp_path):
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(f"{server}?__theme={theme}")
    page.wait_for_selector(".ls-stage[data-state=recorded]")
    wait_for(page, "+(d.drawn2d ?? 0) > 0")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    page.screenshot(path=tmp_path / f"{width}-{theme}.png", full_page=True)
    for part in (".ls-tiles", ".ls-player", ".ls-plot", ".ls-drawing", "#go"):
        box = page.locator(part).first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    page.close()
