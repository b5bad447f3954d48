"""Headless Chromium through its DevTools protocol: pages, what their scripts say, screenshots."""

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT = 60
"""Seconds that anything in the browser may take."""


class NoBrowser(Exception):
    """Why there is no browser here."""


class PageError(Exception):
    """What a script of ours in the page has thrown."""


def find_chromium() -> str:
    """The browser's program.

    @raises NoBrowser where there is none
    """
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise NoBrowser("there is no chromium; the package is chromium")
    return program


class Browser:
    """A browser with one tab; a context manager."""

    def __init__(self):
        program = find_chromium()
        self._profile = tempfile.TemporaryDirectory(
            prefix="workbook-chromium-", ignore_cleanup_errors=True
        )
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--remote-debugging-port=0",
            "--remote-allow-origins=*",
            f"--user-data-dir={self._profile.name}",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            [program, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        try:
            self._socket = websocket.create_connection(self._tab(), timeout=TIMEOUT)
        except BaseException:
            self._end()
            raise
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_) -> None:
        self._socket.close()
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profile.cleanup()

    def _tab(self) -> str:
        """The address of the tab's socket, when the browser is up."""
        port_file = Path(self._profile.name) / "DevToolsActivePort"
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise NoBrowser(f"chromium ended with {self._process.returncode} before it was up")
            try:
                port = port_file.read_text().split("\n")[0]
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=5) as reply:
                    tabs = json.load(reply)
                return next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            except (OSError, StopIteration, ValueError):
                time.sleep(0.1)
        raise NoBrowser(f"chromium was not up after {TIMEOUT} s")

    def call(self, method: str, **parameters) -> dict:
        """A command of the protocol, and its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise PageError(f"{method}: {message['error'].get('message')}")
                return message.get("result", {})
            self._note(message)

    def _note(self, message: dict) -> None:
        """Remembers what the page's scripts complain about."""
        details = message.get("params", {})
        if message["method"] == "Runtime.exceptionThrown":
            exception = details["exceptionDetails"]
            text = exception.get("exception", {}).get("description") or exception["text"]
            self.complaints.append(f"uncaught: {text}")
        elif message["method"] == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.complaints.append(
                f"{details['entry']['text']} {details['entry'].get('url', '')}".strip()
            )
        elif message["method"] == "Runtime.consoleAPICalled" and details["type"] == "error":
            self.complaints.append(" ".join(str(a.get("value", "")) for a in details["args"]))

    def size(self, width: int, height: int = 900) -> None:
        """The size of the window, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scheme(self, name: str) -> None:
        """ "light" or "dark"; nothing moves on its own."""
        self.call(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": name},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ],
        )

    def open(self, url: str) -> None:
        """Shows a page and waits until it is there."""
        self.call("Page.navigate", url="about:blank")
        self.complaints.clear()
        self.call("Page.navigate", url=url)
        self.wait_for(f"document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str):
        """The value of an expression in the page; promises are awaited.

        @raises PageError with what it threw
        """
        done = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            details = done["exceptionDetails"]
            raise PageError(details.get("exception", {}).get("description") or details["text"])
        return done["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Waits until an expression is true.

        @raises PageError when it does not become so
        """
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if self.evaluate(f"Boolean({condition})"):
                return
            time.sleep(0.03)
        raise PageError(f"after {TIMEOUT} s this is not so: {condition}")

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        """Writes what is shown as PNG; `whole`: the whole page."""
        done = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(done["data"]))
