"""The raw log is complete, private and harmless."""

import json
import logging
import stat
from pathlib import Path

import pytest

from agents.llm.base import Credentials, ModelRequest, ProviderError
from agents.llm.messages import UserMessage
from agents.llm.providers.scripted import ScriptedModel, fails, says
from agents.llm.raw_log import with_raw_log

KEY = "sk-never-written-0123456789"
REQUEST = ModelRequest(model="fake-1", messages=(UserMessage("the prompt"),), credentials=Credentials(KEY), run_id="run-7")


async def test_each_event_is_logged_with_time_run_and_model(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    path.touch(mode=0o644)
    provider = with_raw_log(ScriptedModel().script(says("a", "b")), str(path))
    events = [event async for event in provider.stream(REQUEST)]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["TextDelta", "TextDelta", "Finished"]
    assert len(events) == 3
    assert all(line["run"] == "run-7" and line["model"] == "fake-1" and line["ts"] > 0 for line in lines)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KEY not in path.read_text()
    assert "the prompt" not in path.read_text()


async def test_failure_is_logged_and_reraised(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    provider = with_raw_log(ScriptedModel().script(fails("rate_limit", "slow down", status=429)), str(path))
    with pytest.raises(ProviderError):
        _ = [event async for event in provider.stream(REQUEST)]
    line = json.loads(path.read_text())
    assert (line["kind"], line["status"], line["message"]) == ("rate_limit", 429, "slow down")


async def test_unwritable_log_is_reported_once_without_failing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    provider = with_raw_log(ScriptedModel().script(says("a", "b"), says("c")), str(tmp_path / "missing" / "raw.jsonl"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert [event async for event in provider.stream(REQUEST)]
    assert len(caplog.records) == 1


def test_log_is_disabled_without_path() -> None:
    model = ScriptedModel()
    assert with_raw_log(model, "") is model
