"""How the page feels, in figures: `python -m tests.pace` drives it in headless Chromium and prints them as JSON."""

import json
import shutil
import time

from playwright.sync_api import Page, sync_playwright

from demo.bench.server import serve
from tests.browser.test_page import choose, expose, state, wait_for

SECONDS = 10


def main() -> None:
    with serve() as address, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1440, "height": 1000})
        print(json.dumps({**opening(page, address), **attacks(page), **descent(page)}, indent=2))
        chromium.close()


def opening(page: Page, address: str) -> dict[str, float]:
    """Seconds from the address to Gradio's shell, and from there to the recording's first frames."""
    page.goto(address)
    page.wait_for_selector("#go")  # the server's and the browser's first time are not counted
    started = time.perf_counter()
    page.goto(address)
    page.wait_for_selector("#go")
    shell = time.perf_counter()
    wait_for(page, "d.state === 'recorded' && +d.shown > 0")
    return {
        "shell_s": round(shell - started, 2),
        "recording_plays_after_shell_s": round(time.perf_counter() - shell, 2),
    }


def attacks(page: Page) -> dict[str, float]:
    """Seconds from the click to the second frame, in which points have moved, to the first right tile and the verdict.

    Twice, as a lens is kept between runs.
    """
    told: dict[str, float] = {}
    for name in ("first", "second"):
        page.click("#go")
        clicked = time.perf_counter()
        wait_for(page, "['running', 'done'].includes(d.state) && +d.frames > 1")
        told[f"{name}_attack_moves_s"] = round(time.perf_counter() - clicked, 2)
        page.wait_for_selector(".ls-tile[data-mark='=']")
        told[f"{name}_attack_first_right_tile_s"] = round(time.perf_counter() - clicked, 2)
        wait_for(page, "d.state === 'done'")
        told[f"{name}_attack_verdict_s"] = round(time.perf_counter() - clicked, 2)
    return told


def descent(page: Page) -> dict[str, float]:
    """Frames received and drawn per second while TAG runs on one matrix: in 2D, then in 3D; and how soon it stops."""
    told: dict[str, float] = {}
    expose(page, "query", 3)
    choose(page, "#attack-name", "tag")
    for dimensions in ("2d", "3d"):
        page.get_by_role("tab", name=dimensions, exact=False).click()
        page.click("#go")
        wait_for(page, "d.state === 'running' && +d.frames > 5")
        before, started = state(page), time.perf_counter()
        page.wait_for_timeout(1000 * SECONDS)
        after, spent = state(page), time.perf_counter() - started
        told[f"frames_per_s_{dimensions}"] = round((int(after["frames"]) - int(before["frames"])) / spent, 1)
        drawn = int(after[f"drawn{dimensions}"]) - int(before.get(f"drawn{dimensions}", 0))
        told[f"drawn_per_s_{dimensions}"] = round(drawn / spent, 1)
        page.click("#stop")
        wait_for(page, "d.state === 'stopped'")
    return told


if __name__ == "__main__":
    main()
