"""The tables of docs/metrics.md, read: which keys of metrics.jsonl are documented."""

import re
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(?P<key>[^`]+)` \| (?P<unit>[^|]+) \| (?P<meaning>[^|]+) \|$", re.M)
WORDS = {"NAME": r"[A-Za-z][\w.-]*?", "PART": r"\w+", "N": r"\d+"}


def documented() -> dict[str, tuple[str, str]]:
    """Key, or pattern with words in capitals, -> (unit, meaning)."""
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {key: (unit.strip(), meaning.strip()) for key, unit, meaning in rows}


def pattern(key: str) -> re.Pattern[str]:
    """What a documented key matches: `reward/NAME` matches `reward/cells`."""
    parts = re.split(r"(NAME|PART|N(?![A-Z]))", key)
    return re.compile("".join(WORDS.get(part, re.escape(part)) for part in parts))


def undocumented(keys: Iterable[str]) -> list[str]:
    """The keys that no row of the tables covers."""
    patterns = [pattern(key) for key in documented()]
    return sorted(key for key in set(keys) if not any(p.fullmatch(key) for p in patterns))
