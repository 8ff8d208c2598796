"""Fixtures of the database tests."""

import pytest

from tests.harness.plugins import ECHO_PLUGIN, install_plugin, record_plugins, unload_plugins


@pytest.fixture(autouse=True)
def _fast_passwords(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one takes a quarter of a second


@pytest.fixture
def fresh_policy(database):
    """Reset the tool policy to the default before and after the test."""
    from tools_app.models import PolicyTest, PolicyVersion, ToolPolicy
    from tools_app.policy_store.policies import install_policies

    def reset():
        for model in (PolicyTest, ToolPolicy, PolicyVersion):
            model.objects.all().delete()
        install_policies()

    reset()
    yield
    reset()


@pytest.fixture
def add_plugin(database, tmp_path, monkeypatch):
    """Install a plugin: add_plugin("echo", code). Importing it creates a file, so that a test can see whether it was imported."""
    from tools_app.models import Plugin

    monkeypatch.syspath_prepend(str(tmp_path))
    unload_plugins(tmp_path)

    def make(name, code, *, enabled=True, **options):
        trace = f"open({str(tmp_path / (name + '.imported'))!r}, 'w').close()\n"
        install_plugin(tmp_path, name, trace + code, **options)
        record_plugins()
        Plugin.objects.filter(name=name).update(enabled=enabled)
        record_plugins()
        return Plugin.objects.get(name=name)

    make.folder = tmp_path
    yield make
    unload_plugins(tmp_path)


@pytest.fixture
def echo(add_plugin):
    """An enabled plugin with the tool echo_word."""
    return add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"))


@pytest.fixture
def weather(database):
    """An enabled MCP server with the tool weather__forecast, as a worker stores it."""
    from tests.harness.mcp import record_server_tools
    from tools_app.models import McpServer
    from tools_app.policy_store import source_changes

    return record_server_tools(source_changes.save_server(McpServer(name="weather", command="true", enabled=True)), "forecast")
