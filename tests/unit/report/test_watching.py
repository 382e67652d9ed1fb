"""The live page: what the server answers, to whom, and how the page follows a run."""

import http.client
import json
import threading

import pytest

from dllmzoo.errors import UsageError
from dllmzoo.report.watching import Server, Watched
from tests.unit.report import made
from tests.unit.report.shown import refuse_trouble


@pytest.fixture
def served(tmp_path):
    """A run that goes on, and its server."""
    run = made.run(tmp_path / "run", 2, keys=["reward"], rollouts={}, finished=False)
    server = Server(Watched([run]))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield run, server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(server, path, host=None):
    connection = http.client.HTTPConnection(*server.server_address, timeout=10)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def go_on(run, round, **row):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"round": round, **row}) + "\n")


def test_it_listens_on_the_loopback_device_only(served):
    assert served[1].server_address[0] == "127.0.0.1"
    assert served[1].address == f"http://127.0.0.1:{served[1].server_address[1]}/"


def test_new_rounds_are_sent_once(served):
    run, server = served
    status, body = ask(server, "/data.json?have=0")
    data = json.loads(body)
    assert status == 200 and data["runs"][0]["columns"]["round"] == [0, 1, 2]
    assert ask(server, f"/data.json?have={data['version']}") == (204, b"")
    go_on(run, 3, reward=0.75)
    status, body = ask(server, f"/data.json?have={data['version']}")
    assert status == 200 and json.loads(body)["runs"][0]["columns"]["reward"][-1] == 0.75


def test_rounds_that_a_resumed_run_takes_back_go_from_the_page(served):
    run, server = served
    before = json.loads(ask(server, "/data.json")[1])["version"]
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:2]))
    data = json.loads(ask(server, f"/data.json?have={before}")[1])
    assert data["runs"][0]["columns"]["round"] == [0, 1]


def test_no_file_and_no_other_name_is_served(served):
    server = served[1]
    for path in ("/metrics.jsonl", "/../manifest.json", "/runs/0"):
        assert ask(server, path)[0] == 404
    assert ask(server, "/", host="elsewhere.example")[0] == 403
    assert ask(server, "/", host="localhost:1")[0] == 200


def test_a_taken_port_is_an_error_with_a_way_out(served):
    _, server = served
    with pytest.raises(UsageError, match="leave --port out"):
        Server(server.watched, server.server_address[1])


def test_the_page_follows_the_run(served, browser):
    run, server = served
    tab = browser.open(server.address)
    assert tab.text(".rounds") == "2 of 2" and tab.text(".state") == "not finished"
    go_on(run, 3, reward=0.75)
    made.write_rollouts(run, 3, [made.sudoku_line()])
    tab.wait("document.querySelector('.rounds').textContent.startsWith('3')")
    tab.wait("document.querySelector('.viewer .slot')")
    assert [url for url in tab.requests if not url.startswith((server.address, "data:"))] == []
    tab.requests.clear()
    refuse_trouble(tab)
