"""The log over the socket: for operators with operator.admin, exact to the line, and only the log."""

import pytest


@pytest.fixture
def log(settings, tmp_path):
    settings.LOG_DIRECTORY = tmp_path / "logs"
    settings.LOG_DIRECTORY.mkdir()
    file = settings.LOG_DIRECTORY / "clawsite-2026-11-17.log"
    file.write_text("one\ntwo\nthree\n")
    return file


@pytest.fixture
async def operator(sockets, make_user, make_token):
    # As OpenClaw's command line does: it only requests operator.read.
    return await sockets.connect(make_token(make_user("User", "Operator", name="operator")), scopes=["operator.read"])


async def test_log_is_read_from_its_end_and_followed(log, operator):
    tail = await operator.call("logs.tail", {"limit": 2})
    assert (tail["file"], tail["lines"], tail["truncated"], tail["skippedBytes"]) == (log.name, ["two", "three"], True, 4)
    assert (tail["cursor"], tail["size"]) == (14, 14)
    with log.open("a") as file:
        file.write("four\nfiv")  # a line that is still being written
    more = await operator.call("logs.tail", {"cursor": tail["cursor"], "file": tail["file"]})
    assert (more["lines"], more["cursor"], more["truncated"], more["reset"]) == (["four"], 19, False, False)
    with log.open("a") as file:
        file.write("e\nsix\n")
    first = await operator.call("logs.tail", {"cursor": more["cursor"], "limit": 1})
    assert (first["lines"], first["truncated"]) == (["five"], True)
    assert (await operator.call("logs.tail", {"cursor": first["cursor"]}))["lines"] == ["six"]


async def test_new_daily_log_file_causes_a_reset(log, operator):
    before = await operator.call("logs.tail", {})
    (log.parent / "clawsite-2026-11-18.log").write_text("a line that is longer than the whole day before\n")
    after = await operator.call("logs.tail", {"cursor": before["cursor"], "file": before["file"]})
    assert (after["reset"], after["file"], len(after["lines"])) == (True, "clawsite-2026-11-18.log", 1)


async def test_oversized_log_entry_is_returned_in_pieces(log, operator):
    log.write_text("0123456789\n")
    first = await operator.call("logs.tail", {"cursor": 0, "maxBytes": 4})
    rest = await operator.call("logs.tail", {"cursor": first["cursor"], "maxBytes": 100})
    assert (first["lines"], rest["lines"]) == (["0123"], ["456789"])


async def test_only_the_log_file_is_readable(log, operator, tmp_path):
    (tmp_path / "secret").write_text("a key\n")
    answer = await operator.request("logs.tail", {"cursor": 0, "file": "../secret"})
    assert (answer["payload"]["file"], answer["payload"]["reset"]) == (log.name, True)
    log.unlink()
    log.symlink_to(tmp_path / "secret")
    assert not (await operator.request("logs.tail", {}))["ok"]


async def test_non_admin_cannot_read_the_log(log, sockets, make_user, make_token):
    for token in (make_token(make_user(name="ada")), make_token(make_user("User", "Operator", name="narrow"), "operator.read")):
        socket = await sockets.connect(token)
        assert (await socket.request("logs.tail", {}))["error"]["code"] == "FORBIDDEN"
