"""The prefix tree on the stage, in a real browser: of a search on a decoder, played from a recording."""

import json

import pytest
from playwright.sync_api import Page, expect

from demo.screen.messages import messages
from demo.screen.recordings import recorded
from tests.browser.test_accessibility import violations
from tests.browser.test_page import state, wait_for
from tests.browser.test_saving import HACK, choose_file, drop, saved

SENTENCE = "the patient was diagnosed with diabetes last week"
WORDS = SENTENCE.split()
BATCH = f"{SENTENCE}\nthe patient went home\nmy password is hunter two"


@pytest.fixture
def run(played):
    """run(sentences) -> the recording of a search that finds a word in each frame."""
    return lambda sentence: json.loads(recorded(m for m in messages(played(sentence), gap=0) if "frame" in m))


def shown(page: Page, run: dict, frame: str = "Infinity") -> None:
    drop(page, json.dumps(run))
    wait_for(page, f"+d.frames === {len(run['messages'])}")
    scrub(page, frame)


def scrub(page: Page, frame: str) -> None:
    page.evaluate(f"() => window.leakscope.player.seek({frame})")
    wait_for(page, f"+d.shown === Math.min({frame}, +d.frames - 1)")


def read(page: Page) -> list[str]:
    return page.locator(".ls-place[data-kind=read] .ls-stem").all_text_contents()


def caption(page: Page) -> str:
    return page.locator(".ls-odds-told").inner_text().replace("\u00a0", " ")


def test_a_tree_stands_only_where_one_was_walked(page, run):
    assert not page.locator(".ls-prefixes").is_visible()
    shown(page, run(SENTENCE))
    assert page.locator(".ls-prefixes").is_visible()
    assert page.locator(".ls-verdict").bounding_box()["y"] < page.locator(".ls-map").bounding_box()["y"]
    page.evaluate("() => window.leakscope.open('static/assets/recordings/default.json')")
    expect(page.locator(".ls-prefixes")).to_be_hidden()
    assert page.locator(".ls-verdict").bounding_box()["y"] > page.locator(".ls-map").bounding_box()["y"]


def test_it_grows_with_the_frames_and_shrinks_as_one_scrubs_back(page, run):
    shown(page, run(SENTENCE), "0")
    for frame in (0, 3, 7, 2, 8):
        scrub(page, f"{frame}")
        assert read(page) == WORDS[: frame + 1]
        assert page.locator(".ls-place[data-kind=room]").count() == len(WORDS) - len(read(page))
    assert page.locator(".ls-place").first.locator(".ls-odds").inner_text().replace("\u00a0", " ") == "0.2 %"


def test_a_place_tells_what_the_model_guessed_and_what_the_gradient_said(page, run):
    shown(page, run(SENTENCE), "1")
    told = "Word 2: the model guessed “person” at 31 %, the gradient said “patient”, to which the model gave 0.4 %."
    assert caption(page).startswith(told)
    assert "1,024 words tried; the nearest other, " in caption(page)
    place = page.locator(".ls-place").nth(1)
    assert place.locator(".ls-twig").count() == 3
    assert place.locator(".ls-expected span").inner_text() == "person"
    scrub(page, "2")
    assert caption(page).startswith("Word 3: the model guessed “was” at 62 %, and the gradient said the same.")
    assert page.locator(".ls-place").nth(2).locator(".ls-expected").count() == 0
    page.locator(".ls-branch").first.hover()
    assert caption(page).startswith("Word 1: ")
    scrub(page, "Infinity")
    page.mouse.move(0, 0)
    assert caption(page).startswith("Word 1: ")  # in the end, the most surprising one


def test_a_batch_has_a_path_for_each_sentence(page, run):
    """What two sentences share is drawn once, and each path stands in a line of its own."""
    shown(page, run(BATCH))
    assert sorted(read(page)) == sorted([*WORDS, "went", "home", "my", "password", "is", "hunter", "two"])
    stems = {stem.inner_text(): stem for stem in page.locator(".ls-stem").all()}
    boxes = {word: stems[word].bounding_box() for word in ("was", "went", "my")}
    assert boxes["was"]["x"] == pytest.approx(boxes["went"]["x"], abs=1)
    assert boxes["was"]["y"] < boxes["went"]["y"] < boxes["my"]["y"]
    assert boxes["my"]["x"] < boxes["went"]["x"]


def test_what_led_nowhere_is_a_grey_twig_in_the_end(page, run):
    told = run(SENTENCE)
    frame = told["messages"][1]["frame"]
    growths = json.loads(frame["growth"])
    growths[0][4].append([99, "nurse", 0.2, 1e-7])  # it lies in the span too, and nothing follows it
    frame["growth"] = json.dumps(growths)
    shown(page, told, "1")
    assert page.locator(".ls-place[data-kind=open] .ls-stem").all_text_contents() == ["nurse"]
    scrub(page, "Infinity")
    assert page.locator(".ls-place[data-kind=open]").count() == 0
    assert page.locator(".ls-place").nth(1).locator(".ls-end").inner_text().split() == ["nurse", "…"]


def test_the_keyboard_walks_along_the_paths(page, run):
    shown(page, run(BATCH))
    page.locator(".ls-place[data-current] .ls-branch").focus()
    page.keyboard.press("Home")
    for key, said in (
        ("ArrowRight", "Word 2: the model guessed “person”"),
        ("ArrowRight", "Word 3: the model guessed “was”"),
        ("ArrowDown", "Word 3: the model guessed “was” at 62 %, the gradient said “went”"),
        ("ArrowLeft", "Word 2: the model guessed “person” at 31 %, the gradient said “patient”"),
        ("End", "Word 8: "),
    ):
        page.keyboard.press(key)
        assert caption(page).startswith(said)
        focused = page.evaluate("() => document.activeElement.getAttribute('aria-label')")
        assert focused.replace("\u00a0", " ") == caption(page)
    assert state(page)["shown"] == f"{int(state(page)['frames']) - 1}"  # the run was not scrubbed


def test_the_keyboards_place_stays_while_the_tree_grows(page, run):
    told = run(SENTENCE)
    shown(page, told, "3")
    page.locator(".ls-branch").nth(1).focus()
    scrub(page, "6")
    assert page.evaluate("() => document.activeElement.textContent").startswith("patient")
    assert caption(page).startswith("Word 2: ")
    scrub(page, "0")  # that word is not read yet: its place is
    assert caption(page).startswith("Word 2: nothing was tried here yet.")


def test_the_growing_end_is_in_sight(page, run):
    page.set_viewport_size({"width": 390, "height": 844})
    shown(page, run(" ".join([SENTENCE] * 5)), "0")
    for frame in ("30", "5"):
        scrub(page, frame)
        tip, seen = (page.locator(part).bounding_box() for part in (".ls-place[data-current]", ".ls-grove"))
        assert seen["y"] <= tip["y"] <= seen["y"] + seen["height"] - tip["height"]


@pytest.mark.parametrize("text", [SENTENCE, BATCH])
def test_axe_finds_nothing(browser, server, run, text):
    page = browser.new_page(viewport={"width": 1440, "height": 1000}, reduced_motion="reduce")
    page.goto(server)
    page.wait_for_selector(".ls-stage[data-state=recorded]")
    shown(page, run(text))
    page.locator(".ls-why summary").click()
    assert violations(page) == []
    assert page.evaluate("() => document.getAnimations().length") == 0
    page.close()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1920, 1080)])
@pytest.mark.parametrize("text", [f"{SENTENCE} and was told to walk for an hour every day", BATCH])
def test_nothing_overflows(browser, server, run, width, height, text):
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(server)
    page.wait_for_selector(".ls-stage[data-state=recorded]")
    shown(page, run(text))
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    if width > 1000 and "\n" not in text:  # on a projector a whole sentence is in sight, and its words are not cut
        assert page.locator(".ls-grove").evaluate("(node) => node.scrollHeight <= node.clientHeight + 1")
        for word in page.locator(".ls-stem").all():
            assert word.evaluate("(node) => node.scrollWidth <= node.clientWidth")
    page.close()


def test_words_stay_text_on_the_page_and_in_an_exported_one(page, browser, run, tmp_path):
    told = run(SENTENCE)
    for message in told["messages"]:
        if "growth" in message["frame"]:
            message["frame"]["growth"] = message["frame"]["growth"].replace('"diabetes"', json.dumps(HACK))
        message["frame"]["tokens"] = [HACK if word == "diabetes" else word for word in message["frame"]["tokens"]]
    shown(page, told)
    page.locator(".ls-branch").nth(5).hover()
    assert HACK in caption(page)
    assert page.locator("#stage img").count() == 0
    assert saved(page, "Picture").read_bytes().startswith(b"\x89PNG")
    kept = json.loads(saved(page, "Recording").read_text(encoding="utf-8"))
    assert [m["frame"].get("growth") for m in kept["messages"]] == [m["frame"].get("growth") for m in told["messages"]]
    file = tmp_path / "run.html"
    file.write_bytes(saved(page, "Web page").read_bytes())
    alone, wrong = browser.new_page(), []
    alone.on("pageerror", lambda problem: wrong.append(str(problem)))
    alone.goto(file.as_uri())
    wait_for(alone, "d.state === 'recorded' && +d.shown === +d.frames - 1")
    assert read(alone) == [HACK[:17] + "…" if word == "diabetes" else word for word in WORDS]
    assert alone.locator(".ls-place").first.evaluate("(node) => getComputedStyle(node).position") == "relative"
    assert alone.evaluate("() => window.hacked") is None
    assert page.evaluate("() => window.hacked") is None
    assert not wrong
    alone.close()


DAMAGES = ("[", '"a"', '[[0,0,1,["a",1,0]]]', '[[0,0,1,["a",1,0],[["1","a",1,0]]]]', '[[0,-1,1,["a",1,0],[]]]', "[1]")


def test_a_damaged_tree_is_refused(page, run):
    for text in (*DAMAGES, f'[[0,0,1,["{"x" * 300}",1,0],[]]]'):
        told = run(SENTENCE)
        told["messages"][2]["frame"]["growth"] = text
        choose_file(page, json.dumps(told).encode())
        expect(page.locator(".ls-saving .ls-told"), text).to_contain_text("growth of frame 3 is not how a tree")
        page.evaluate("() => document.querySelector('.ls-saving .ls-told').replaceChildren()")


def test_a_tree_that_hangs_together_nowhere_is_drawn_as_far_as_it_does(page, run):
    """Branches without a parent, or that are their own: a file may hold them."""
    told = run(SENTENCE)
    odd = [
        [7, 3, 1, ["a", 1, 0], [[8, "b", 1, 0]]],
        [1, 1, 1, ["a", None, None], [[1, "the", None, None], [0, "d", None, None]]],
    ]
    told["messages"][1]["frame"]["growth"] = json.dumps(odd)
    shown(page, told, "1")
    assert read(page) == ["the"]
    scrub(page, "Infinity")
    assert read(page) == WORDS  # the last frame tells it all
