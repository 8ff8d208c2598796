"""One connection to real servers: from PyPI, from the SDK, and some that misbehave."""

import asyncio
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from tests.harness.processes import PROJECT
from tests.harness.services import free_port
from tests.mcp_servers import fixtures as made
from tests.mcp_servers.fixtures import Observed
from tests.unit.test_outside_text import inside
from tools_app.core.definition import ImageBlock, ToolFailed
from tools_app.sources.mcp import connection
from tools_app.sources.mcp.listing import build_listing


@pytest.fixture(autouse=True)
def nothing_left_behind():
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    yield
    left = [each for each in psutil.Process().children(recursive=True) if each.pid not in before]
    assert [each.cmdline() for each in left if each.status() != psutil.STATUS_ZOMBIE] == []


@pytest.fixture
def quickly(monkeypatch):
    """Remove all delays."""
    monkeypatch.setattr(connection, "MIN_LIST_INTERVAL", 0.01)
    monkeypatch.setattr(connection, "HEALTH_INTERVAL_SECONDS", 0.2)
    monkeypatch.setattr(connection, "MAX_RETRY_PAUSE", 0.05)


@pytest.fixture
def http_server():
    """Start a server on a port: http_server("-m", module), with {port} in its arguments; ends with the test."""
    started = []

    def start(*arguments: str, port: int = 0) -> tuple[str, int, subprocess.Popen]:
        port = port or free_port()
        argv = [sys.executable, *(each.replace("{port}", str(port)) for each in arguments)]
        process = subprocess.Popen(argv, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started.append(process)
        return f"http://127.0.0.1:{port}/mcp", port, process

    yield start
    for process in started:
        below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        process.wait()
        for each in below:
            each.kill()
            each.wait()


SDK_OVER_HTTP = ("-m", "tests.mcp_servers.sdk_server", "{port}")
CLOCK = str(made.BIN / "mcp-server-time")
PROXY_OVER_HTTP = ("-m", "mcp_streamablehttp_proxy.cli", "--port", "{port}", CLOCK, "--local-timezone", "UTC")


async def test_pypi_server_is_listed_and_called():
    async with Observed(made.clock_server()) as it:
        result = await it.call("get_current_time", timezone="Asia/Tokyo")
        assert "+09:00" in result.text
        assert result.details["structuredContent"]["timezone"] == "Asia/Tokyo"
        assert it.tools == ["get_current_time", "convert_time"]
        assert it.statuses == ["starting", "ready"]


async def test_tool_error_is_returned_with_its_text():
    async with Observed(made.clock_server()) as it:
        result = await it.call("get_current_time", timezone="Nowhere")
        assert result.is_error
        assert "Nowhere" in result.text


async def test_calling_a_missing_tool_returns_an_error():
    async with Observed(made.clock_server()) as it:
        with pytest.raises(ToolFailed, match="`srv` returned an error: Unknown tool"):
            await it.call("no_such_tool")


@pytest.mark.parametrize("arguments", [PROXY_OVER_HTTP, SDK_OVER_HTTP], ids=["third party", "sdk"])
async def test_http_server_is_listed_and_called(http_server, quickly, arguments, eventually):
    url, _, _ = http_server(*arguments)
    async with Observed(made.address(url)) as it:
        await eventually(lambda: "ready" in it.statuses)
        if arguments is PROXY_OVER_HTTP:
            assert "+09:00" in await it.said("get_current_time", timezone="Asia/Tokyo")
        else:
            assert await it.said("environment", name="NO_SUCH") == "(not set)"


async def test_killed_http_server_is_reconnected(http_server, quickly, eventually):
    url, port, process = http_server(*SDK_OVER_HTTP)
    async with Observed(made.address(url)) as it:
        await eventually(lambda: "ready" in it.statuses)
        process.kill()
        process.wait()
        await eventually(lambda: it.statuses[-1] == "failing")
        with pytest.raises(ToolFailed, match="not running"):
            await it.call("environment", name="X")
        http_server(*SDK_OVER_HTTP, port=port)
        await eventually(lambda: it.statuses[-1] == "ready", seconds=40)
        assert await it.said("environment", name="NO_SUCH") == "(not set)"


async def test_every_content_type_is_returned():
    async with Observed(made.workbench()) as it:
        result = await it.call("show")
        assert isinstance(result.content[1], ImageBlock)
        words = ["a pixel", "the image: image/png, 1 x 1 pixels, 70 bytes", "[link to notes: file:///notes.txt (text/plain)]"]
        assert inside(result.text).splitlines() == words
        assert result.details == {"structuredContent": {"pixels": 1}}


async def test_progress_is_reported_and_cancellation_reaches_the_server(tmp_path, eventually):
    mark = tmp_path / "mark"
    async with Observed(made.workbench()) as it:
        call = asyncio.create_task(it.call("slow", seconds=60, mark=str(mark)))
        await eventually(lambda: it.updates == ["1/2 half way"])
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await eventually(mark.exists)
        assert await it.said("environment", name="NO_SUCH") == "(not set)"  # the connection continues


async def test_new_tools_are_loaded_on_notification(quickly, eventually, monkeypatch):
    monkeypatch.setattr(connection, "HEALTH_INTERVAL_SECONDS", 600)  # through the notification alone
    async with Observed(made.workbench()) as it:
        await it.call("learn", name="somersault")
        await eventually(lambda: "somersault" in it.tools)
        assert await it.said("somersault") == "I am somersault"


async def test_new_tools_of_older_servers_are_loaded(quickly, eventually, monkeypatch):
    monkeypatch.setattr(connection, "HEALTH_INTERVAL_SECONDS", 600)
    async with Observed(made.workbench()) as it:
        it.connection._failures = 1  # with the legacy handshake
        await it.call("learn", name="somersault")
        await eventually(lambda: "somersault" in it.tools)


@pytest.fixture
def tidied(monkeypatch):
    """Record the thread of each list cleanup."""
    threads = []

    def noted(*told):
        threads.append(threading.current_thread())
        return build_listing(*told)

    monkeypatch.setattr(connection, "build_listing", noted)
    return threads


async def test_unchanged_listing_is_cleaned_and_reported_once_off_loop(quickly, eventually, tidied):
    async with Observed(made.rogue("good")) as it:
        await eventually(lambda: it.statuses.count("ready") > 2)
    assert len(tidied) == 1
    assert tidied[0] is not threading.current_thread()
    assert ["listing" in seen for status, seen in it.reports if status == "ready"][:3] == [True, False, False]


async def test_listing_is_reported_again_after_failed_store(quickly, eventually, monkeypatch):
    monkeypatch.setattr(Observed, "stores", False)
    async with Observed(made.rogue("good")) as it:
        await eventually(lambda: it.statuses.count("ready") > 1)
        assert all("listing" in seen for status, seen in it.reports if status == "ready")


async def test_killed_server_is_restarted_while_a_call_waits(quickly, eventually):
    async with Observed(made.rogue("good")) as it:
        await it.call("ping")
        made.the_server().send_signal(signal.SIGKILL)
        await eventually(lambda: "failing" in it.statuses)
        assert await it.said("ping", word="again") == "again"
        assert it.statuses[:4] == ["starting", "ready", "failing", "starting"]
        assert it.reports[3][1]["restarted"] is True


async def test_server_dying_during_a_call_fails_only_that_call(quickly):
    async with Observed(made.rogue("dies")) as it:
        with pytest.raises(ToolFailed, match="was lost during the call"):
            await it.call("ping")


async def test_server_gets_only_its_configured_environment(monkeypatch):
    monkeypatch.setenv("WEATHER_KEY", "s3cret-value")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-others")
    async with Observed(made.workbench(API_KEY="${WEATHER_KEY}", REGION="eu")) as it:
        assert await it.said("environment", name="API_KEY") == "[redacted]"  # the variable is set
        assert await it.said("environment", name="REGION") == "eu"
        for name in ("OPENAI_API_KEY", "WEATHER_KEY", "CLAWSITE_HOME", "DJANGO_SETTINGS_MODULE", "REDIS_URL"):
            assert await it.said("environment", name=name) == "(not set)"


async def test_progress_is_reported_without_server_secrets(monkeypatch):
    monkeypatch.setenv("WEATHER_KEY", "s3cret-value")
    async with Observed(made.workbench(API_KEY="${WEATHER_KEY}")) as it:
        await it.call("slow", seconds=0, words="x" * 290 + "$API_KEY")  # truncated first, it would reveal half of the secret
        assert it.updates == [f"1/2 {'x' * 290}[redacted]"]


@pytest.mark.parametrize("name", ["NO_SUCH_VARIABLE", "CLAWSITE_HOME", "DATABASE_URL"])
async def test_missing_or_reserved_variable_prevents_server_start(eventually, name):
    async with Observed(made.program("true", TOKEN=f"${{{name}}}")) as it:
        await eventually(lambda: it.error)
        assert it.error == f"the worker has no environment variable {name}"


async def test_missing_program_is_reported(eventually):
    async with Observed(made.program("no-such-program")) as it:
        await eventually(lambda: it.error)
        assert it.error == "it ended: cannot run no-such-program: No such file or directory"


async def test_server_exit_reason_is_reported_without_secrets(eventually):
    async with Observed(made.rogue("crash")) as it:
        await eventually(lambda: it.error)
        assert it.error == "it ended: the licence has run out: token=[redacted]"


async def test_unresponsive_server_is_abandoned(monkeypatch, eventually):
    monkeypatch.setattr(connection, "START_TIMEOUT_SECONDS", 0.5)
    async with Observed(made.rogue("silent")) as it:
        await eventually(lambda: it.error)
        assert it.error == "it did not answer within 0.5 s"


async def test_some_invalid_stdout_output_is_tolerated(quickly):
    async with Observed(made.rogue("chatty")) as it:
        assert await it.said("ping") == "pong"


@pytest.mark.parametrize(("kind", "why"), [("garbage", "non-MCP"), ("endless", "16 MB")])
async def test_too_much_invalid_stdout_output_ends_the_server(eventually, kind, why):
    async with Observed(made.rogue(kind)) as it:
        await eventually(lambda: it.error, seconds=60)
        assert why in it.error


async def test_stderr_flood_is_logged_in_part(caplog):
    caplog.set_level("INFO", logger="tools_app.sources.mcp.stdio")
    async with Observed(made.rogue("stderr")) as it:
        assert await it.said("ping") == "pong"
    said = [record for record in caplog.records if "stderr: line" in record.getMessage()]
    assert 0 < len(said) <= 100


async def test_long_description_is_truncated_and_invisible_characters_removed(eventually):
    async with Observed(made.rogue("huge")) as it:
        await eventually(lambda: it.tools)
        assert len(it.reports[-1][1]["listing"].tools[0]["description"]) == 2_000
    async with Observed(made.rogue("hidden")) as it:
        await eventually(lambda: it.tools)
        assert it.reports[-1][1]["listing"].tools[0]["description"] == "Say it back"


async def test_colliding_tool_names_are_reported(eventually):
    async with Observed(made.rogue("twins")) as it:
        await eventually(lambda: it.tools)
        assert it.tools == ["get-time", "other"]
        assert it.notes == [
            f"{name}: its name becomes srv__get_time, which is already used by get-time" for name in ("get_time", "Get.Time")
        ]


async def test_unusable_schemas_exclude_only_their_tools(eventually):
    async with Observed(made.rogue("schemas")) as it:
        await eventually(lambda: it.tools)
        assert it.tools == ["ping"]
        assert [note.split(":")[0] for note in it.notes] == ["elsewhere", "bomb", "large", "nonsense"]


async def test_stopping_a_server_ends_its_child_processes(eventually):
    async with Observed(made.rogue("children")) as it:
        await it.call("ping")
        assert sorted(each.name() for each in made.programs_of() if each.name() == "sleep") == ["sleep", "sleep"]
    assert made.programs_of() == []


async def test_closing_does_not_wait_for_a_hanging_server(eventually):
    async with Observed(made.rogue("deaf")) as it:
        call = asyncio.create_task(it.call("ping"))
        await eventually(lambda: "ready" in it.statuses)
        await it.connection.close()
        with pytest.raises(ToolFailed, match="was lost"):
            await call
