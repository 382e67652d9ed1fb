"""Makes the pictures of docs/report.md from runs of yours, with the Chromium of this machine.

    python docs/report_pictures.py RUN RUN

The first run is also asked for an answer, whose trace is played. Run it from the checkout.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from dllmzoo.cli._app import run
from tests.browser import MISSING, Browser, Tab, executable

TARGET = Path(__file__).parent / "assets" / "report"
LARGEST = 200_000
"""Bytes of a picture."""


def main(runs: list[str]) -> int:
    program = executable()
    if program is None or not runs:
        print(MISSING if program is None else __doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        report, trace = Path(folder, "report.html"), Path(folder, "trace.html")
        if run(["report", *runs, "-o", str(report)]) or run(
            ["generate", runs[0], "--steps", "8", "--trace", str(trace)]
        ):
            return 1
        browser = Browser(program, Path(folder, "profile"))
        curves = browser.open(report.as_uri(), 1000, 760)
        curves.run("document.querySelector('#curves-part').scrollIntoView()")
        curves.run(
            "[...document.querySelectorAll('.chart')].find(c => c.querySelector('h4').textContent "
            "=== 'reward').querySelector('svg[tabindex]').focus()"
        )
        curves.press("End", "ArrowLeft")
        keep("curves", curves.picture())
        keep("viewer", played(browser.open(trace.as_uri(), 900, 900), 5).picture(".viewer"))
        phone = played(browser.open(trace.as_uri(), 390, 760, dark=True), 3)
        keep("viewer-phone", phone.picture())
        browser.close()
    return 0


def played(tab: Tab, steps: int) -> Tab:
    """The viewer after some steps, coloured by entropy, with one token picked."""
    tab.run("document.querySelector('.viewer').focus()")
    tab.press(*["ArrowRight"] * steps, "c", "c", *["]"] * 7)
    return tab


def keep(name: str, picture: bytes) -> None:
    assert len(picture) < LARGEST, f"{name}: {len(picture)} bytes"
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / f"{name}.png").write_bytes(picture)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
