"""The form of an agent: what it refuses before a conversation would stumble over it, and the tools beside it."""

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
    """Plain static files, no key of any provider, and the policy as it was afterwards."""
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
    """The form as it comes, with these changes, sent back."""
    form = client.get(address, secure=True).context["adminform"].form
    values = {name: form[name].value() for name in form.fields} | changes
    values = {name: "\n".join(value) if isinstance(value, list) else value for name, value in values.items()}
    return client.post(
        address, {name: value for name, value in values.items() if value is not None and value is not False}, secure=True
    )


def objections(response) -> str:
    assert response.status_code == 200, "it was saved"
    return str(response.context["adminform"].form.errors)


def test_an_agent_is_made_on_one_form(client, tmp_path):
    place = str(tmp_path / "work")
    who = {"slug": "scout", "name": "Scout", "model": "demo/clawsite", "instructions": "Look.", "workspace": place, "max_turns": 9}
    assert send(client, ADD, **who, profile="coding", deny="write\nedit").status_code == 302
    scout = Agent.objects.get(slug="scout")
    assert {name: getattr(scout, name) for name in who} == who
    row = policies.current_rules().row("agent", "scout")
    assert (row.profile, row.deny) == ("coding", ("write", "edit"))
    assert PolicyVersion.objects.order_by("number").last().changed_by == client.make_user


def test_a_form_saved_unchanged_leaves_the_policy_alone(client):
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
def test_a_model_that_no_run_could_use_is_refused_with_the_remedy(client, model, objection):
    said = objections(send(client, MAIN, model=model))
    assert objection in said
    assert "demo/clawsite" in said or "openai" in said
    assert Agent.objects.get(slug="main").model == ""


def test_with_a_key_the_model_is_taken(client, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert send(client, MAIN, model=" openai/gpt-5 ").status_code == 302
    assert Agent.objects.get(slug="main").model == "openai/gpt-5"


def test_a_key_that_is_gone_does_not_keep_the_rest_from_being_saved(client):
    Agent.objects.filter(slug="main").update(model="openai/gpt-5")
    assert send(client, MAIN, name="Still here").status_code == 302
    assert "no credentials" in client.get("/admin/agents/agent/", secure=True).content.decode()


def test_the_models_to_choose_from_are_suggested(client):
    said = client.get(MAIN, secure=True).content.decode()
    assert '<option value="demo/clawsite" label=""></option>' in said
    assert '<option value="openai/gpt-5" label="no credentials"></option>' in said


OURS = ["{home}", "{home}/..", "{home}/secrets", "{home}/workspaces", "{home}/workspaces/main/user-1"]


@pytest.mark.parametrize("given", ["notes", "./notes", "/", *OURS, "{file}", "{file}/below"])
def test_a_workspace_an_agent_must_not_or_cannot_have_is_refused(client, settings, tmp_path, given):
    file = tmp_path / "file"
    file.write_text("")
    given = given.format(home=settings.HOME, file=file)
    assert "workspace" in objections(send(client, MAIN, workspace=given))


def test_a_way_around_by_a_link_is_refused_too(client, settings, tmp_path):
    (tmp_path / "link").symlink_to(settings.HOME)
    assert "state directory" in objections(send(client, MAIN, workspace=str(tmp_path / "link")))


@pytest.mark.parametrize("given", ["{above}", "{above}/code", "{above}/code/deeper"])
def test_code_database_and_anchor_are_not_for_agents_either(client, settings, tmp_path, given):
    settings.BASE_DIR = tmp_path / "one" / "code"
    assert "server" in objections(send(client, MAIN, workspace=given.format(above=settings.BASE_DIR.parent)))
    settings.BASE_DIR, settings.AUDIT_ANCHOR = tmp_path / "elsewhere", str(tmp_path / "one" / "audit.jsonl")
    assert "audit.jsonl" in objections(send(client, MAIN, workspace=str(tmp_path / "one")))
    settings.AUDIT_ANCHOR = ""
    assert send(client, MAIN, workspace=str(tmp_path / "one")).status_code == 302


def test_the_doctor_names_a_workspace_that_the_form_would_refuse_today(client, settings, tmp_path):
    assert send(client, MAIN, workspace=str(tmp_path)).status_code == 302
    assert database.check_workspaces(settings).level == "ok"
    settings.BASE_DIR = tmp_path / "moved-here"
    finding = database.check_workspaces(settings)
    assert (finding.level, f"main has {tmp_path}: " in finding.text) == ("warn", True)


@pytest.mark.parametrize("field", [{"max_turns": 0}, {"max_turns": 100_000}, {"run_timeout_seconds": 0}, {"slug": "No Slug"}])
def test_limits_and_ids_out_of_range_are_refused(client, field):
    assert next(iter(field)) in objections(send(client, ADD, **{"slug": "scout", "name": "Scout", **field}))


def test_a_tool_that_does_not_exist_is_refused_by_the_policys_own_words(client):
    assert "is not a tool, group or plugin" in objections(send(client, MAIN, deny="wriet"))


def test_the_form_shows_what_the_layers_leave_and_who_refused_the_rest(client):
    send(client, MAIN, deny="write")
    said = client.get(MAIN, secure=True).content.decode()
    assert '<tr class="allowed"><th scope="row">read</th><td>fs</td><td>allowed</td><td></td></tr>' in said
    assert '<tr class="refused"><th scope="row">write</th><td>fs</td><td>denied</td><td>layer agent: ' in said


def test_the_form_goes_by_the_model_that_a_run_would_have(client):
    Agent.objects.filter(slug="main").update(model="openai/gpt-5")
    policies.save_policy(scope="global", provider="openai", deny=["read"])
    said = client.get(MAIN, secure=True).content.decode()
    assert '<tr class="refused"><th scope="row">read</th><td>fs</td><td>denied</td><td>layer global_provider: ' in said
    assert "with openai/gpt-5, for a user" in said


def test_a_policy_changed_meanwhile_is_not_overwritten(client):
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


def test_a_policy_changed_between_the_look_and_the_save_leaves_the_agent_alone_too(client, monkeypatch):
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


def test_another_row_changed_meanwhile_is_no_reason_not_to_rename_an_agent(client):
    seen = policies.current_rules().version
    policies.save_policy(scope="agent", subject="scout", profile="minimal")
    assert send(client, MAIN, name="Renamed", seen_version=seen).status_code == 302


def test_tools_that_a_policy_test_forbids_are_refused_in_the_form(client):
    test = save_test(name="main never fetches", expected="never", agent="main", tool="web_fetch")
    try:
        said = objections(send(client, MAIN, name="Renamed", profile="full"))
    finally:
        test.delete()
    assert "Policy test “main never fetches” would fail" in said
    assert Agent.objects.get(slug="main").name != "Renamed"


def test_what_looks_effective_and_is_not_is_told_while_typing_and_after_saving(client):
    page = client.get(MAIN, secure=True).content.decode()
    assert page.count('data-findings="/admin/tools_app/toolpolicy/findings/?scope=agent&amp;subject=main"') == 3
    assert send(client, MAIN, allow="exec\nread", deny="exec").status_code == 302
    assert "“exec” has no effect" in client.get(MAIN, secure=True).content.decode()


def test_who_may_not_change_the_policy_sees_its_effect_only(make_user):
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


def test_the_agent_everybody_starts_with_stays(client):
    Agent.objects.create(slug="scout", name="Scout")
    assert client.post("/admin/agents/agent/main/delete/", {"post": "yes"}, secure=True).status_code == 403
    assert client.post("/admin/agents/agent/scout/delete/", {"post": "yes"}, secure=True).status_code == 302
    assert list(Agent.objects.values_list("slug", flat=True)) == ["main"]
