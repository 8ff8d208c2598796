"""Fixtures of the database tests."""

import pytest


@pytest.fixture
def fresh_policy(database):
    """The tool policy as a new installation has it, and again so afterwards."""
    from tools_app.models import PolicyTest, PolicyVersion, ToolPolicy
    from tools_app.policies import install_policies

    def renew():
        for model in (PolicyTest, ToolPolicy, PolicyVersion):
            model.objects.all().delete()
        install_policies()

    renew()
    yield
    renew()
