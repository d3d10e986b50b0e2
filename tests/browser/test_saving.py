"""Runs saved from the stage, and files brought back to it; files come from anybody."""

import csv
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

from demo.screen.recordings import FOLDER
from tests.browser.test_page import attack, expose, state, tiles, wait_for
from tests.test_fuzz import junk, tried

HACK = "<img src=x onerror=window.hacked=1>"


def saved(page: Page, kind: str) -> Path:
    """What the menu's choice of this name downloads."""
    page.locator(".ls-save summary").click()
    with page.expect_download() as download:
        page.locator(".ls-save").get_by_role("button", name=re.compile(f"^{kind}")).click()
    return download.value.path()


def choose_file(page: Page, content: bytes) -> None:
    page.locator(".ls-file").set_input_files({"name": "run.json", "mimeType": "application/json", "buffer": content})


def drop(page: Page, content: str, times: int = 1) -> None:
    page.evaluate(
        """([text, times]) => {
            const data = new DataTransfer();
            data.items.add(new File([text.repeat(times)], 'run.json', { type: 'application/json' }));
            const there = document.querySelector('#sentence');  // anywhere on the page
            for (const kind of ['dragover', 'drop'])
                there.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        [content, times],
    )


def frames(page: Page) -> list[dict]:
    return page.evaluate("() => window.leakscope.frames")


def recording(name: str = "lesson-dropout") -> dict:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_a_saved_run_comes_back_as_it_was(page):
    """Saved, dropped onto the page, saved again: the same frames, tiles and verdict."""
    expose(page, "query", 0)
    attack(page)
    before, words, verdict = frames(page), tiles(page), page.locator(".ls-headline").inner_text()
    text = saved(page, "Recording").read_text(encoding="utf-8")
    assert json.loads(text)["messages"][0]["start"]["recorded"]
    page.evaluate("() => window.leakscope.waiting()")
    wait_for(page, "+d.frames === 0")
    drop(page, text)
    wait_for(page, "d.state === 'recorded' && +d.frames > 0")
    assert frames(page) == before
    page.keyboard.press("Escape")
    page.locator(".ls-slider").focus()
    page.keyboard.press("End")
    wait_for(page, "+d.shown === +d.frames - 1")
    assert tiles(page) == words
    expect(page.locator(".ls-headline")).to_have_text(verdict)
    assert json.loads(saved(page, "Recording").read_text(encoding="utf-8")) == json.loads(text)


@pytest.mark.parametrize("name", ["default", "lesson-dropout", "lesson-noise-strong"])
def test_recordings_made_by_python_are_of_the_same_format(page, name):
    """Nothing of them is lost in the browser's checks."""
    choose_file(page, json.dumps(recording(name)).encode())
    wait_for(page, f"d.state === 'recorded' && +d.frames === {len(recording(name)['messages'])}")
    assert json.loads(saved(page, "Recording").read_text(encoding="utf-8")) == recording(name)


def test_a_table_has_a_row_for_each_frame(page):
    with saved(page, "Table").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    shown = frames(page)
    assert [float(row["seconds"]) for row in rows] == [frame["seconds"] for frame in shown]
    assert rows[-1]["tokens"] == " ".join(shown[-1]["tokens"])
    assert rows[-1]["in place"] == "9"
    assert rows[-1]["recover %"] == "100"


def test_a_picture_is_of_the_frame(page):
    wait_for(page, "+(d.drawn2d ?? 0) > 0")
    picture = saved(page, "Picture").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_an_exported_page_plays_from_the_disk_and_asks_nobody(page, browser, tmp_path):
    run = recording()
    run["messages"][0]["start"]["title"] = f"</script>{HACK}"
    drop(page, json.dumps(run))
    wait_for(page, f"+d.frames === {len(run['messages'])}")
    file = tmp_path / "run.html"
    file.write_bytes(saved(page, "Web page").read_bytes())
    assert file.stat().st_size < 300_000
    alone, asked, wrong = browser.new_page(), [], []
    alone.on("request", lambda request: asked.append(request.url))
    alone.on("pageerror", lambda problem: wrong.append(str(problem)))
    alone.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    alone.goto(file.as_uri())
    wait_for(alone, "d.state === 'recorded' && +d.shown === +d.frames - 1")  # it plays by itself, once
    assert tiles(alone) == run["messages"][-1]["frame"]["tokens"]
    assert alone.locator(".ls-title").inner_text() == f"</script>{HACK}"
    assert alone.locator(".ls-flat-truth circle").count() == len(tiles(alone))
    assert alone.locator(".ls-mask:visible").count() == len(tiles(alone))
    alone.locator(".ls-slider").focus()
    alone.keyboard.press("Home")
    wait_for(alone, "+d.shown === 0")
    assert tiles(alone) == run["messages"][0]["frame"]["tokens"]
    assert asked == [file.as_uri()]
    assert not wrong
    assert alone.evaluate("() => window.hacked") is None
    alone.close()


def damaged(change) -> str:
    run = recording()
    change(run)
    return json.dumps(run)


def change_frame(**fields) -> str:
    return damaged(lambda run: run["messages"][3]["frame"].update(fields))


DAMAGES = {
    "cut": (json.dumps(recording())[:5000], "it is not whole JSON"),
    "of something else": ('{"a": 1}', "this is no recording of Leakscope"),
    "a list": ("[1, 2]", "this is no recording of Leakscope"),
    "nothing": ("null", "this is no recording of Leakscope"),
    "of another version": (damaged(lambda run: run.update(version=2)), "is of version 2: this page reads version 1"),
    "without frames": (damaged(lambda run: run.update(messages=[])), "it has no frames"),
    "endless": (damaged(lambda run: run.update(messages=run["messages"] * 600)), "at most 5000 can be shown"),
    "without a start": (damaged(lambda run: run["messages"][0].pop("start")), "the start is missing"),
    "with a word for a frame": (damaged(lambda run: run["messages"].insert(1, "x")), "frame 2 is missing"),
    "with numbers for words": (change_frame(tokens=list(range(9))), "tokens of frame 4 is not a list"),
    "with an object for a word": (change_frame(stage={"toString": 1}), "stage of frame 4 is not a text"),
    "with few points": (change_frame(points=[[0, 0, 0]]), "frame 4 has lists of different lengths"),
    "with flat points": (change_frame(points=[[0, 0]] * 9), "points of frame 4 is not a list"),
    "with endless points": (change_frame(points=[[1e300, 0, 0]] * 9), "points of frame 4 is not a list"),
    "with other marks": (change_frame(marks="<b>======"), "marks of frame 4 is not made of = ~ x"),
    "with bad masks": (change_frame(masks=["%%%%"] * 9), "masks of frame 4 is not a list"),
    "with endless words": (change_frame(tokens=["x" * 300] * 9), "tokens of frame 4 is not a list"),
    "out of order": (change_frame(n=0), "frame 4 is out of order"),
}


def test_damaged_recordings_are_refused_with_what_is_wrong(page):
    """All in one page, one after the other: the stage keeps what it shows."""
    shown = state(page)["run"]
    for name, (text, words) in DAMAGES.items():
        choose_file(page, text.encode())
        expect(page.locator(".ls-saving .ls-told"), name).to_contain_text(words)
        assert page.locator(".ls-saving .ls-told").inner_text().startswith("Not opened: ")
        assert state(page)["run"] == shown
    drop(page, DAMAGES["cut"][0])
    expect(page.locator(".ls-saving .ls-told")).to_contain_text("it is not whole JSON")
    drop(page, " ", 33_000_000)
    expect(page.locator(".ls-saving .ls-told")).to_contain_text("the file has 33 MB: a recording may have 32")
    assert state(page)["run"] == shown


@given(st.data())
@tried(120)
def damages(data) -> None:
    """A recording with something in it deleted, replaced or doubled, or its text cut: collected for the browser."""
    run = recording()
    for _ in range(data.draw(st.integers(1, 3))):
        at = run
        while True:
            key = data.draw(st.sampled_from(list(at) if isinstance(at, dict) else range(len(at))))
            if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.integers(0, 3)) == 0:
                break
            at = at[key]
        deed = data.draw(st.sampled_from(["delete", "double", "replace", "replace"]))
        if deed == "delete":
            del at[key]
        elif deed == "double" and isinstance(at, list):
            at.insert(key, at[key])
        else:
            at[key] = data.draw(junk)
        if not run:
            break
    text = json.dumps(run)
    DAMAGED.append(text[: data.draw(st.integers(0, len(text)))] if data.draw(st.integers(0, 9)) == 0 else text)


DAMAGED: list[str] = []


def test_whatever_is_in_a_recording_it_is_shown_or_refused(page):
    """A script error anywhere fails the test, also one that comes while a frame is drawn."""
    DAMAGED.clear()
    damages()
    outcomes = page.evaluate(
        """async (texts) => {
            const { read, Damaged } = await import(new URL('static/assets/stage/recording.js', document.baseURI));
            const outcomes = [];
            for (const text of texts) {
                let outcome = 'shown';
                try {
                    window.leakscope.present(read(text), 'last');
                    await new Promise(requestAnimationFrame);
                } catch (problem) {
                    outcome = problem instanceof Damaged ? 'refused' : `${problem}: ${text.slice(0, 300)}`;
                }
                outcomes.push(outcome);
            }
            return outcomes;
        }""",
        DAMAGED,
    )
    assert set(outcomes) == {"shown", "refused"}


def test_scripts_in_a_recording_stay_text(page):
    """Every text of it at once, with fields that nobody knows."""
    run = recording()
    start, last = run["messages"][0]["start"], run["messages"][-1]
    for text in ("title", "attack", "device", "exposed"):
        start[text] = HACK
    start["truth"] = [HACK] * len(start["truth"])
    start["background"] = [[HACK, *point] for _, *point in start["background"]]
    start["__proto__"] = {"hacked": 1}
    for message in run["messages"]:
        frame = message["frame"]
        frame |= {"tokens": [HACK] * len(frame["tokens"]), "others": [HACK] * len(frame["tokens"]), "stage": HACK}
        if "candidates" in frame:
            frame["candidates"]["words"] = [HACK] * len(frame["candidates"]["words"])
    last["end"] |= {"headline": HACK, "detail": HACK, "onclick": HACK}
    drop(page, json.dumps(run))
    wait_for(page, "d.state === 'recorded' && +d.shown === +d.frames - 1")
    wait_for(page, "+(d.drawn2d ?? 0) > 0")
    assert set(tiles(page)) == {HACK}
    expect(page.locator(".ls-headline")).to_have_text(HACK)
    assert page.locator("#stage img").count() == 0
    assert page.evaluate("() => window.hacked ?? ({}).hacked ?? null") is None
    assert "onclick" not in json.loads(saved(page, "Recording").read_text(encoding="utf-8"))["messages"][-1]["end"]
    assert saved(page, "Picture").read_bytes().startswith(b"\x89PNG")
    assert page.evaluate("() => window.hacked") is None


def test_a_recording_takes_the_place_of_a_run(page):
    expose(page, "layer", 4)
    page.click("#go")
    wait_for(page, "d.state === 'running'")
    drop(page, json.dumps(recording("lesson-span")))
    wait_for(page, "d.state === 'recorded' && +d.shown === +d.frames - 1")
    page.wait_for_timeout(500)
    assert state(page)["state"] == "recorded"
