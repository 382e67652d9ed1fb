"""Headless Chromium driven through its pipe: no package, no port, no network."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = (
    f"no Chromium found (looked for {', '.join(NAMES)}); install one to run this test, say "
    f"`apt-get install chromium`"
)
FLAGS = (
    "--headless", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-extensions", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--mute-audio", "--hide-scrollbars",
)  # fmt: skip
PIPES = (
    "import os, sys; read, write = map(int, sys.argv[1:3]); high = 100; "
    "os.dup2(read, high); os.dup2(write, high + 1); os.dup2(high, 3); os.dup2(high + 1, 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)
"""Chromium reads commands from descriptor 3 and answers on 4."""
CODES = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, "Escape": 27, "Tab": 9, " ": 32}


def executable() -> str | None:
    """The system's Chromium."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One Chromium process with any number of tabs."""

    def __init__(self, program: str, profile: Path) -> None:
        read, self.write = os.pipe()
        self.read, write = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            [sys.executable, "-c", PIPES, str(read), str(write), program, *FLAGS, *sandbox,
             f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read)
        os.close(write)
        self.buffer, self.number = b"", 0
        self.tabs: dict[str, Tab] = {}

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """One command and its answer; events on the way go to their tabs."""
        self.number += 1
        asked = {"id": self.number, "method": method, "params": params}
        if session:
            asked["sessionId"] = session
        os.write(self.write, json.dumps(asked).encode() + b"\0")
        while True:
            message = self.message(60)
            if message.get("id") == self.number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self.heard(message)

    def message(self, seconds: float) -> dict[str, Any]:
        """The next message of Chromium."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], seconds)
            assert ready, f"Chromium said nothing for {seconds} s"
            part = os.read(self.read, 1 << 16)
            assert part, "Chromium has ended"
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def heard(self, message: dict[str, Any]) -> None:
        """Note what a tab complains of and what it asks the network for."""
        tab = self.tabs.get(message.get("sessionId", ""))
        if tab is None:
            return
        kind, said = message["method"], message["params"]
        if kind == "Network.requestWillBeSent":
            tab.requests.append(said["request"]["url"])
        elif kind == "Runtime.exceptionThrown":
            tab.errors.append(json.dumps(said["exceptionDetails"])[:500])
        elif kind == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            tab.errors.append(json.dumps(said["args"])[:500])
        elif kind == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            tab.errors.append(said["entry"]["text"])

    def open(self, url: str, width: int = 1000, height: int = 900, *, dark: bool = False) -> Tab:
        """A tab that has loaded a page of ours and run its scripts."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = self.tabs[session] = Tab(self, session, target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable", session)
        tab.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", features=[scheme])
        tab.call("Page.navigate", url=url)
        tab.wait("document.documentElement?.dataset.ready === 'true'")
        return tab

    def close(self) -> None:
        """End Chromium."""
        os.close(self.write)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read)


@dataclass
class Tab:
    """One page; `errors` of its console, `requests` it has made."""

    browser: Browser
    session: str
    target: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command to this tab."""
        return self.browser.call(method, self.session, **params)

    def run(self, expression: str) -> Any:
        """The value of JavaScript."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, expression: str, seconds: float = 20) -> None:
        """Until the expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.03)

    def press(self, *keys: str, shift: bool = False) -> None:
        """Keys, one after the other, to what has the focus."""
        for key in keys:
            code = CODES.get(key, ord(key[0].upper()))
            what = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
            typed = {"text": key} if len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **what, **typed)
            self.call("Input.dispatchKeyEvent", type="keyUp", **what)

    def text(self, selector: str) -> str:
        """What an element says."""
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector: str) -> list[str]:
        """What all elements say, in order."""
        return self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(n => n.textContent)"
        )

    def set(self, selector: str, value: Any) -> None:
        """Change a control, as a user's hand does."""
        self.run(
            f"(() => {{ const n = document.querySelector({json.dumps(selector)}); "
            f"n.value = {json.dumps(value)}; const kind = n.tagName === 'SELECT' ? 'change' : "
            "'input'; n.dispatchEvent(new Event(kind)); })()"
        )

    def count(self, selector: str) -> int:
        """How many elements there are."""
        return self.run(f"document.querySelectorAll({json.dumps(selector)}).length")

    def picture(self, selector: str | None = None) -> bytes:
        """A PNG of an element, or of what is in view."""
        import base64

        more: dict[str, Any] = {}
        if selector is not None:
            box = self.run(
                f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
                ".getBoundingClientRect(); return {x: b.x + scrollX, y: b.y + scrollY, "
                "width: b.width, height: b.height}; })()"
            )
            more = {"clip": box | {"scale": 1}, "captureBeyondViewport": True}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])

    def close(self) -> None:
        """Close the tab."""
        self.browser.call("Target.closeTarget", targetId=self.target)
