"""The agent form: it rejects what would fail in a run, and shows the agent's tools."""

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from agents.admin import forms
from agents.models import Agent
from clawsite.cli.doctor import database
from tools_app.models import PolicyVersion, ToolPolicy
from tools_app.policy_store import policies
from tools_app.policy_store.policy_tests import save_test

pytestmark = pytest.mark.usefixtures("database", "surroundings")

ADD = "/admin/agents/agent/add/"
MAIN = "/admin/agents/agent/main/change/"


@pytest.fixture
def surroundings(settings, monkeypatch):
    """Plain static files, no provider API keys, and the policy restored afterwards."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_KEY", "CLAWSITE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    kept = {policy.pk: policy for policy in ToolPolicy.objects.all()}
    first = policies.current_rules().version
    yield
    ToolPolicy.objects.exclude(pk__in=kept).delete()
    for policy in kept.values():
        policy.save()
    PolicyVersion.objects.filter(number__gt=first).delete()


@pytest.fixture
def client(make_user) -> Client:
    someone = make_user("Operator")
    someone.is_staff = True
    someone.save()
    client = Client()
    client.force_login(someone)
    client.make_user = someone
    return client


def send(client: Client, address: str, **changes):
    """Submit the form as rendered, with these changes."""
    form = client.get(address, secure=True).context["adminform"].form
    values = {name: form[name].value() for name in form.fields} | changes
    values = {name: "\n".join(value) if isinstance(value, list) else value for name, value in values.items()}
    return client.post(
        address, {name: value for name, value in values.items() if value is not None and value is not False}, secure=True
    )


def objections(response) -> str:
    assert response.status_code == 200, "it was saved"
    return str(response.context["adminform"].form.errors)


def test_agent_is_created_with_one_form(client, tmp_path):
    place = str(tmp_path / "work")
    who = {"slug": "scout", "name": "Scout", "model": "demo/clawsite", "instructions": "Look.", "workspace": place, "max_turns": 9}
    assert send(client, ADD, **who, profile="coding", deny="write\nedit").status_code == 302
    scout = Agent.objects.get(slug="scout")
    assert {name: getattr(scout, name) for name in who} == who
    row = policies.current_rules().row("agent", "scout")
    assert (row.profile, row.deny) == ("coding", ("write", "edit"))
    assert PolicyVersion.objects.order_by("number").last().changed_by == client.make_user


def test_saving_unchanged_form_leaves_policy_alone(client):
    before = policies.current_rules().version
    assert send(client, MAIN, name="Main agent").status_code == 302
    assert Agent.objects.get(slug="main").name == "Main agent"
    assert policies.current_rules().version == before


@pytest.mark.parametrize(
    ("model", "objection"),
    [
        ("openai/gpt-5", "No credentials for this model. Set OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-5-5", "No credentials for this model. Set ANTHROPIC_API_KEY"),
        ("openia/gpt-5", "Unknown provider “openia”"),
        ("some-model", "provider/model"),
    ],
)
def test_unusable_model_is_rejected_with_remedy(client, model, objection):
    said = objections(send(client, MAIN, model=model))
    assert objection in said
    assert "demo/clawsite" in said or "openai" in said
    assert Agent.objects.get(slug="main").model == ""


def test_model_with_api_key_is_accepted(client, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert send(client, MAIN, model=" openai/gpt-5 ").status_code == 302
    assert Agent.objects.get(slug="main").model == "openai/gpt-5"


def test_missing_api_key_does_not_block_other_changes(client):
    Agent.objects.filter(slug="main").update(model="openai/gpt-5")
    assert send(client, MAIN, name="Still here").status_code == 302
    assert "no credentials" in client.get("/admin/agents/agent/", secure=True).content.decode()


def test_form_suggests_available_models(client):
    said = client.get(MAIN, secure=True).content.decode()
    assert '<option value="demo/clawsite" label=""></option>' in said
    assert '<option value="openai/gpt-5" label="no credentials"></option>' in said


OURS = ["{home}", "{home}/..", "{home}/secrets", "{home}/workspaces", "{home}/workspaces/main/user-1"]


@pytest.mark.parametrize("given", ["notes", "./notes", "/", *OURS, "{file}", "{file}/below"])
def test_forbidden_or_unusable_workspace_is_rejected(client, settings, tmp_path, given):
    file = tmp_path / "file"
    file.write_text("")
    given = given.format(home=settings.HOME, file=file)
    assert "workspace" in objections(send(client, MAIN, workspace=given))


def test_symlink_to_forbidden_workspace_is_rejected(client, settings, tmp_path):
    (tmp_path / "link").symlink_to(settings.HOME)
    assert "state directory" in objections(send(client, MAIN, workspace=str(tmp_path / "link")))


@pytest.mark.parametrize("given", ["{above}", "{above}/code", "{above}/code/deeper"])
def test_workspace_containing_code_database_or_anchor_is_rejected(client, settings, tmp_path, given):
    settings.BASE_DIR = tmp_path / "one" / "code"
    assert "server" in objections(send(client, MAIN, workspace=given.format(above=settings.BASE_DIR.parent)))
    settings.BASE_DIR, settings.AUDIT_ANCHOR = tmp_path / "elsewhere", str(tmp_path / "one" / "audit.jsonl")
    assert "audit.jsonl" in objections(send(client, MAIN, workspace=str(tmp_path / "one")))
    settings.AUDIT_ANCHOR = ""
    assert send(client, MAIN, workspace=str(tmp_path / "one")).status_code == 302


def test_doctor_reports_workspace_the_form_would_reject(client, settings, tmp_path):
    assert send(client, MAIN, workspace=str(tmp_path)).status_code == 302
    assert database.check_workspaces(settings).level == "ok"
    settings.BASE_DIR = tmp_path / "moved-here"
    finding = database.check_workspaces(settings)
    assert (finding.level, f"main has {tmp_path}: " in finding.text) == ("warn", True)


@pytest.mark.parametrize("field", [{"max_turns": 0}, {"max_turns": 100_000}, {"run_timeout_seconds": 0}, {"slug": "No Slug"}])
def test_out_of_range_limits_and_ids_are_rejected(client, field):
    assert next(iter(field)) in objections(send(client, ADD, **{"slug": "scout", "name": "Scout", **field}))


def test_unknown_tool_is_rejected_with_policy_error(client):
    assert "is not a tool, group or plugin" in objections(send(client, MAIN, deny="wriet"))


def test_form_shows_effective_tools_and_denying_layers(client):
    send(client, MAIN, deny="write")
    said = client.get(MAIN, secure=True).content.decode()
    assert '<tr class="allowed"><th scope="row">read</th><td>fs</td><td>allowed</td><td></td></tr>' in said
    assert '<tr class="refused"><th scope="row">write</th><td>fs</td><td>denied</td><td>layer agent: ' in said


def test_form_uses_model_of_actual_runs(client):
    Agent.objects.filter(slug="main").update(model="openai/gpt-5")
    policies.save_policy(scope="global", provider="openai", deny=["read"])
    said = client.get(MAIN, secure=True).content.decode()
    assert '<tr class="refused"><th scope="row">read</th><td>fs</td><td>denied</td><td>layer global_provider: ' in said
    assert "with openai/gpt-5, for a user" in said


def test_concurrently_changed_policy_is_not_overwritten(client):
    seen = policies.current_rules().version
    policies.save_policy(scope="agent", subject="main", profile="minimal")
    answer = send(client, MAIN, name="Renamed", profile="full", deny="write", seen_version=seen)
    assert "The policy was changed while you were editing" in objections(answer)
    assert policies.current_rules().row("agent", "main").profile == "minimal"
    assert Agent.objects.get(slug="main").name != "Renamed"
    form = answer.context["adminform"].form
    assert (form["name"].value(), form["deny"].value()) == ("Renamed", "write")
    typed = {"name": "Renamed", "profile": "full", "deny": "write", "seen_version": form["seen_version"].value()}
    assert send(client, MAIN, **typed).status_code == 302
    assert (Agent.objects.get(slug="main").name, policies.current_rules().row("agent", "main").deny) == ("Renamed", ("write",))


def test_policy_conflict_during_save_leaves_agent_unchanged(client, monkeypatch):
    looks = []

    def too_early(form, seen):
        looks.append(seen)
        if len(looks) > 1:
            real(form, seen)

    real = forms.check_version
    monkeypatch.setattr(forms, "check_version", too_early)
    seen = policies.current_rules().version
    policies.save_policy(scope="agent", subject="main", profile="minimal")
    answer = send(client, MAIN, name="Renamed", profile="full", seen_version=seen)
    assert "The policy was changed while you were editing" in objections(answer)
    assert Agent.objects.get(slug="main").name != "Renamed"


def test_unrelated_policy_change_does_not_block_agent_rename(client):
    seen = policies.current_rules().version
    policies.save_policy(scope="agent", subject="scout", profile="minimal")
    assert send(client, MAIN, name="Renamed", seen_version=seen).status_code == 302


def test_tools_forbidden_by_policy_test_are_rejected(client):
    test = save_test(name="main never fetches", expected="never", agent="main", tool="web_fetch")
    try:
        said = objections(send(client, MAIN, name="Renamed", profile="full"))
    finally:
        test.delete()
    assert "Policy test “main never fetches” would fail" in said
    assert Agent.objects.get(slug="main").name != "Renamed"


def test_ineffective_entries_are_reported_while_typing_and_after_saving(client):
    page = client.get(MAIN, secure=True).content.decode()
    assert page.count('data-findings="/admin/tools_app/toolpolicy/findings/?scope=agent&amp;subject=main"') == 3
    assert send(client, MAIN, allow="exec\nread", deny="exec").status_code == 302
    assert "“exec” has no effect" in client.get(MAIN, secure=True).content.decode()


def test_user_without_policy_permission_sees_effective_policy_only(make_user):
    someone = make_user()
    someone.is_staff = True
    someone.save()
    someone.user_permissions.set(Permission.objects.filter(codename__in=["view_agent", "change_agent"]))
    client = Client()
    client.force_login(someone)
    before = policies.current_rules().version
    page = client.get(MAIN, secure=True)
    assert "profile" not in page.context["adminform"].form.fields
    assert "session_status" in page.content.decode()
    assert client.post(MAIN, {"name": "M", "max_turns": 5, "profile": "full"}, secure=True).status_code == 302
    assert Agent.objects.get(slug="main").max_turns == 5
    assert policies.current_rules().version == before


def test_default_agent_cannot_be_deleted(client):
    Agent.objects.create(slug="scout", name="Scout")
    assert client.post("/admin/agents/agent/main/delete/", {"post": "yes"}, secure=True).status_code == 403
    assert client.post("/admin/agents/agent/scout/delete/", {"post": "yes"}, secure=True).status_code == 302
    assert list(Agent.objects.values_list("slug", flat=True)) == ["main"]
