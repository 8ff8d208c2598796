"""Rows of one test are gone in the next: tests/harness/database.py."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Group

from agents.models import Agent
from clawsite.accounts.models import User
from clawsite.infra import clock
from sessions_app.models import Lane, Session
from tests.harness.database import KEPT, reset_database
from tools_app.models import PolicyVersion, ToolPolicy

pytestmark = pytest.mark.dialect


def all_rows():
    models = [model for model in apps.get_models(include_auto_created=True) if model._meta.db_table not in KEPT]
    return {model._meta.label: list(model.objects.order_by("pk").values()) for model in models}


def test_reset_restores_initial_rows(make_user, make_session):
    reset_database()
    first = all_rows()
    make_session(make_user("Operator"))
    Lane.objects.filter(name="main").update(max_running=1)
    Lane.objects.filter(name="cron").delete()
    Agent.objects.all().delete()
    User.objects.filter(is_service=True).update(is_active=False)
    Group.objects.get(name="User").permissions.clear()
    ToolPolicy.objects.all().delete()
    PolicyVersion.objects.create(number=2, snapshot={}, created_at=clock.now())
    assert all_rows() != first

    reset_database()

    assert all_rows() == first


def test_reset_does_not_reuse_ids(make_user, make_session):
    earlier = make_user()
    make_session(earlier)
    reset_database()

    assert make_user().pk > earlier.pk
    assert not Session.objects.exists()
