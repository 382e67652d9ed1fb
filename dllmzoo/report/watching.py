"""The live page of running jobs: a small server that only this machine can reach."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dllmzoo.errors import UsageError
from dllmzoo.report.collect import collect
from dllmzoo.report.page import for_scripts, page

LOOPBACK = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost")
"""Hosts that a request may name: a page of another site cannot read the data by its own name."""


class Watched:
    """The data of some runs, read again when a file of theirs has changed.

    Args:
        folders: of the runs.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)
        self.lock = threading.Lock()
        self.seen: Any = None
        self.held: dict[str, Any] = {}
        self.number = 0

    def data(self) -> dict[str, Any]:
        """What the page shows, with its `version`, which grows with each change."""
        with self.lock:
            now = [self._marks(folder) for folder in self.folders]
            if now != self.seen:
                self.held, self.seen = collect(self.folders, live=True), now
                self.number += 1
            return self.held | {"labs": [], "live": True, "version": self.number}

    @staticmethod
    def _marks(folder: Path) -> list[tuple[int, int] | None]:
        """Size and time of what is read; resuming cuts metrics.jsonl back, which changes both."""
        marks = []
        for name in ("metrics.jsonl", "manifest.json", "recipe.resolved.yaml", "rollouts"):
            try:
                stat = (folder / name).stat()
                marks.append((stat.st_size, stat.st_mtime_ns))
            except FileNotFoundError:
                marks.append(None)
        return marks


class Server(ThreadingHTTPServer):
    """Serves the page and its data on the loopback device, and no file.

    Args:
        watched: the runs.
        port: 0 = any free one.

    Raises:
        UsageError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, watched: Watched, port: int = 0) -> None:
        self.watched = watched
        try:
            super().__init__((LOOPBACK, port), Handler)
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used ({error.strerror}); leave --port out for a free one"
            ) from error

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    """Answers `/` with the page and `/data.json?have=VERSION` with what is new, or 204."""

    server: Server  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """One request."""
        if urlsplit(f"//{self.headers.get('Host', '')}").hostname not in NAMES:
            self._answer(HTTPStatus.FORBIDDEN, b"this server answers only to its own machine\n")
            return
        asked = urlsplit(self.path)
        if asked.path == "/":
            data = self.server.watched.data()
            title = f"watching {', '.join(run['name'] for run in data['runs'])}"
            self._answer(HTTPStatus.OK, page(data, title=title, live=True).encode(), "text/html")
        elif asked.path == "/data.json":
            data = self.server.watched.data()
            if parse_qs(asked.query).get("have") == [str(data["version"])]:
                self._answer(HTTPStatus.NO_CONTENT, b"")
            else:
                body = json.dumps(for_scripts(data), allow_nan=False).encode()
                self._answer(HTTPStatus.OK, body, "application/json")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"there are / and /data.json\n")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a page asks every two seconds."""
