"""The live page in a real browser: skipped where there is none, unless HEADWATER_BROWSER=required."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from headwater import Category, Number, Schema
from tests.service.test_process import Process

pytestmark = pytest.mark.slow  # processes, browsers and brokers

EVIL = "<img src=x onerror=alert(1)>"
SCHEMA = Schema({"x": Number(0, 1), "kind": Category("a", "b"), EVIL: Category(EVIL, "<script>alert(2)</script>")})
WAIT = 60_000  # milliseconds: other tests may take the processor


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("HEADWATER_BROWSER") == "required":
            pytest.fail("HEADWATER_BROWSER=required, but no Chromium was found")
        pytest.skip("no Chromium was found")
    with sync_playwright() as started:
        launched = started.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    found = Process(tmp_path_factory.mktemp("live"), SCHEMA)
    yield found
    found.process.kill()
    found.process.wait()


def write(service: Process, count: int, low: float, high: float, kind: str) -> int:
    values = np.random.default_rng(count).uniform(low, high, count)
    with service.client() as client:
        return client.write({"x": values, "kind": np.full(count, kind), EVIL: np.full(count, EVIL)})


def pictures(page: Page) -> tuple[str, str]:
    """What is drawn: the bars of the first column, and the pixels of the pair."""
    bars = page.locator("#marginals .histogram .bars").first.get_attribute("d")
    pixels = page.evaluate("document.querySelector('#densities canvas').toDataURL()")
    return str(bars), str(pixels)


def shows(page: Page, name: str, value: str) -> None:
    page.wait_for_selector(f"body[data-{name}='{value}']", state="attached", timeout=WAIT)


def until(page: Page, t: int) -> None:
    shows(page, "t", str(t))
    page.wait_for_selector("#densities canvas", timeout=WAIT)


def test_the_page_changes_without_reload_and_recovers_from_a_kill(
    browser: Browser, service: Process, tmp_path: Path
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    errors, asked = list[str](), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"http://127.0.0.1:{service.port}/runs/trips")
    shows(page, "t", "0")
    assert "No record has come yet" in page.inner_text("#lead")
    page.evaluate("window.sameDocument = true")

    until(page, t := write(service, 1500, 0, 0.3, "a"))
    first = pictures(page)
    assert "1,500" in page.inner_text("h1")
    until(page, t := write(service, 1500, 0.6, 1, "b"))
    second = pictures(page)
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert "from the same noisy counts" in page.inner_text("#columns-key")

    service.process.send_signal(signal.SIGKILL)
    service.process.wait()
    shows(page, "link", "lost")
    service.start()
    shows(page, "link", "live")
    until(page, t + 500 if write(service, 500, 0, 1, "a") else 0)
    assert page.evaluate("window.sameDocument") is True
    assert EVIL in page.inner_text("#marginals")
    assert errors == []
    assert page.evaluate("document.body.dataset.error ?? ''") == ""
    assert {url.split("/")[2] for url in asked} == {f"127.0.0.1:{service.port}"}
    page.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 400), ("dark", 400)])
def test_it_fits_any_screen_and_theme(browser: Browser, service: Process, scheme: str, width: int) -> None:
    write(service, 1200, 0, 1, "b")
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"http://127.0.0.1:{service.port}/runs/trips")
    page.wait_for_selector("#densities canvas", timeout=WAIT)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) > 384) == (scheme == "light")
    assert page.evaluate("document.body.dataset.error ?? ''") == ""
    page.close()


def test_nothing_of_elsewhere_is_run_even_if_it_gets_into_the_page(browser: Browser, service: Process) -> None:
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{service.port}/runs/trips")
    shows(page, "link", "live")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.run=1\">')")
    script = "const s = document.createElement('script'); s.textContent = 'window.run = 2'; document.body.append(s);"
    page.evaluate(f"(() => {{ {script} }})()")
    page.wait_for_timeout(300)
    assert page.evaluate("window.run ?? 0") == 0
    page.close()
