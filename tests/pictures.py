"""The README's pictures, taken of the real page: `python -m tests.pictures` writes them into assets/images."""

import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from demo.bench.server import serve

FOLDER = Path(__file__).parent.parent / "assets" / "images"
WIDTH = 800  # pixels of the film
STATE = "() => document.querySelector('.ls-stage').dataset"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with serve() as address, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1440, "height": 1010})
        page.goto(f"{address}?__theme=light")
        page.wait_for_selector(".ls-stage[data-state=recorded]")
        page.click("#go")
        page.wait_for_function(f"() => ({STATE})().state === 'done'", timeout=120_000)
        page.wait_for_timeout(1500)
        page.screenshot(path=FOLDER / "page.png")
        film(page)
        chromium.close()


def film(page: Page) -> None:
    """The run on the stage, frame by frame: scrubbed rather than played, so that none is missed."""
    pictures = []
    for n in range(int(page.evaluate(STATE)["frames"])):
        page.locator(".ls-slider").fill(str(n))
        page.wait_for_timeout(150)
        picture = Image.open(io.BytesIO(page.locator(".ls-stage").screenshot())).convert("RGB")
        pictures.append(picture.resize((WIDTH, WIDTH * picture.height // picture.width)))
    first, *rest = pictures
    pace = [180] * len(rest) + [3000]
    first.save(FOLDER / "run.webp", save_all=True, append_images=rest, duration=pace, loop=0, quality=70)


if __name__ == "__main__":
    main()
