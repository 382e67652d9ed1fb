"""A hub on this machine: repositories in memory behind the addresses that the real one has."""

import hashlib
import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants

from dllmzoo import hub as library

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = (".safetensors", ".parquet")
"""Files that the hub keeps apart from git, under their SHA-256."""


@dataclass
class Hub:
    """Repositories, and what was asked.

    Args:
        repos: `models/owner/name` or `datasets/owner/name` -> file -> content.
        licence: that the repositories state.
        spoil: file -> how often it is sent with a wrong byte.
        cut: file -> bytes after which the connection breaks, once.
        gated: repositories that ask for consent.
    """

    repos: dict[str, dict[str, bytes]]
    licence: str | None = "mit"
    spoil: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    gated: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    address: str = ""

    def info(self, repo: str) -> dict[str, Any]:
        """The answer to `repo_info` with `files_metadata`."""
        siblings = []
        for name, content in self.repos[repo].items():
            entry: dict[str, Any] = {"rfilename": name, "size": len(content)}
            entry |= {"blobId": git_blob(content)}
            if name.endswith(LARGE):
                entry["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 1}
            siblings.append(entry)
        card = {} if self.licence is None else {"cardData": {"license": self.licence}}
        owner = repo.partition("/")[2]
        return {"id": owner, "sha": COMMIT, "siblings": siblings, "private": False, **card}

    def tree(self, repo: str) -> list[dict[str, Any]]:
        """The answer to `list_repo_tree`."""
        entries = []
        for name, content in self.repos[repo].items():
            entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content)}
            entry |= {"oid": git_blob(content)}
            if name.endswith(LARGE):
                entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 1}
            entries.append(entry)
        return entries


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_blob(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


@contextmanager
def serve(hub: Hub):
    """The hub behind an address of this machine, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            path = unquote(urlsplit(self.path).path).strip("/")
            hub.asked.append(f"{self.command} {path}")
            if not path:
                return self.send(b"hello")
            if path.startswith("api/"):
                return self.api(path.removeprefix("api/"))
            self.file(path)

        def api(self, path: str) -> None:
            found = re.match(r"((?:models|datasets)/[^/]+/[^/]+)(?:/(\w+)/([^/]+))?", path)
            repo = found[1] if found else ""
            what, revision = (found[2] or "revision", found[3] or "main") if found else ("", "")
            if repo in hub.gated:
                return self.send(b"{}", 403, {"X-Error-Code": "GatedRepo"})
            if repo not in hub.repos:
                return self.send(b"{}", 404, {"X-Error-Code": "RepoNotFound"})
            if revision not in ("main", COMMIT):
                return self.send(b"{}", 404, {"X-Error-Code": "RevisionNotFound"})
            answer = hub.info(repo) if what == "revision" else hub.tree(repo)
            self.send(json.dumps(answer).encode())

        def file(self, path: str) -> None:
            parts = path.split("/")
            kind = "models" if parts[0] != "datasets" else parts.pop(0)
            repo, name = f"{kind}/{parts[0]}/{parts[1]}", "/".join(parts[4:])
            content = hub.repos.get(repo, {}).get(name)
            if content is None:
                return self.send(b"", 404, {"X-Error-Code": "EntryNotFound"})
            large = name.endswith(LARGE)
            etag = sha256(content) if large else git_blob(content)
            heads = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
            if self.command == "HEAD":
                return self.send(content, 200, heads)
            if hub.spoil.get(name, 0) > 0:
                hub.spoil[name] -= 1
                content = bytes([content[0] ^ 1]) + content[1:]
            first = 0
            if (asked := self.headers.get("Range")) and asked.startswith("bytes="):
                first = int(asked.removeprefix("bytes=").partition("-")[0] or 0)
            body, status = content[first:], 200
            if first:
                status = 206
                heads["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            stop = hub.cut.pop(name, None)
            hub.sent[name] = hub.sent.get(name, 0) + len(body if stop is None else body[:stop])
            self.send(body, status, heads, stop)

        def send(
            self, body: bytes, status: int = 200, heads: Any = None, stop: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(heads or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[:stop])
            if stop is not None:
                self.wfile.flush()
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def unplug(monkeypatch: pytest.MonkeyPatch, folder: Path, address: str = "http://127.0.0.1:9"):
    """The network allowed, a hub that does not answer, and a folder and a cache of its own."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(library, "_answered", set())
    monkeypatch.setattr(library, "_silence", None)
    for name in library.SWITCHES:
        monkeypatch.setenv(name, "0")
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
