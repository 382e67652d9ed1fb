"""Charts saved from the page: the SVG and the PNG that a press of a button leaves on the disk."""

import json
import struct
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.unit.report import made

SVG = "{http://www.w3.org/2000/svg}"
REWARD = "button[aria-label='save reward as {}']"


@pytest.fixture
def saved(opened, browser, tmp_path):
    """Press a button of a page and wait for the file."""
    folder = tmp_path / "saved"
    folder.mkdir()

    def call(tab, button, name):
        browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        tab.run(f"document.querySelector({json.dumps(button)}).click()")
        end = time.monotonic() + 20
        while not (folder / name).exists():
            assert time.monotonic() < end, sorted(path.name for path in folder.iterdir())
            tab.run("1")
            time.sleep(0.05)
        return folder / name

    return call


def runs(folder: Path) -> list[Path]:
    keys = ["reward", "preview_reward", "kl"]
    return [made.run(folder / name, 4, keys=keys, level=0.1 * i) for i, name in enumerate("ab")]


def test_every_chart_has_both_buttons(opened, tmp_path):
    tab = opened(*runs(tmp_path))
    charts = tab.count(".chart")
    assert charts > 4 and tab.count(".chart .saves button") == 2 * charts
    labels = tab.run("[...document.querySelectorAll('.saves button')].map(b => b.ariaLabel)")
    assert "save reward as SVG" in labels and "save KL to the reference as PNG" in labels
    assert "save entropy by step: a as SVG" in labels


def test_an_svg_stands_alone(opened, saved, tmp_path):
    tab = opened(*runs(tmp_path))
    root = ET.parse(saved(tab, REWARD.format("SVG"), "reward.svg")).getroot()
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert texts[:2] == ["reward", "reward"], "title and unit"
    assert "round" in texts
    assert texts[-4:] == ["a reward", "a preview_reward", "b reward", "b preview_reward"]
    curves = [node for node in root.iter(f"{SVG}path") if node.get("fill") == "none"]
    assert [node.get("stroke") for node in curves] == ["rgb(0, 114, 178)"] * 2 + [
        "rgb(213, 94, 0)"
    ] * 2
    assert {node.get("stroke-dasharray") for node in curves} == {"none", "7px, 3px"}
    whole = ET.tostring(root, encoding="unicode")
    assert "var(" not in whole and "class=" not in whole and "style=" not in whole
    width, height = float(root.get("width")), float(root.get("height"))
    assert root.get("viewBox") == f"0 0 {width:g} {height:g}" and height > 210


def test_a_png_is_three_times_as_large_and_not_empty(opened, saved, browser, tmp_path):
    tab = opened(*runs(tmp_path))
    root = ET.parse(saved(tab, REWARD.format("SVG"), "reward.svg")).getroot()
    file = saved(tab, REWARD.format("PNG"), "reward.png")
    head = file.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    assert (width, height) == (3 * float(root.get("width")), 3 * int(float(root.get("height"))))
    from PIL import Image

    colours = {colour for _, colour in Image.open(file).convert("RGB").getcolors(1 << 20)}
    assert {(255, 255, 255), (0, 114, 178), (213, 94, 0)} <= colours


def test_dark_colours_are_saved_as_they_are_seen(opened, saved, tmp_path):
    tab = opened(*runs(tmp_path), dark=True)
    root = ET.parse(saved(tab, REWARD.format("SVG"), "reward.svg")).getroot()
    assert root.find(f"{SVG}rect").get("fill") == "rgb(13, 17, 23)"
    assert "rgb(77, 178, 236)" in {node.get("stroke") for node in root.iter(f"{SVG}path")}


def test_a_title_of_a_stranger_is_text_and_a_file_name(opened, saved, tmp_path):
    hostile = '../<b>é & "it"</b>'
    line = {"label": "</text><script>", "x": [1, 2], "y": [0.1, 1.0]}
    chart = {"title": hostile, "unit": "", "meaning": "", "log": False, "xTitle": "x"}
    lab = {"title": "lab", "notes": [], "tables": []}
    lab["charts"] = [chart | {"lines": [line, {**line, "label": "two", "y": [1.0, 2.0]}]}]
    tab = opened(*runs(tmp_path), labs=[lab])
    root = ET.parse(saved(tab, "[data-lab] .saves button", "b_é_it_b.svg")).getroot()
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert texts[0] == hostile and "</text><script>" in texts


def test_a_chart_without_values_cannot_be_saved(opened, tmp_path):
    tab = opened(*runs(tmp_path))
    tab.run("document.getElementById('run-0').click(); document.getElementById('run-1').click()")
    assert tab.run("[...document.querySelectorAll('#curves .saves button')].every(b => b.disabled)")
