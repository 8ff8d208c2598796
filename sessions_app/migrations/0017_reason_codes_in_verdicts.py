"""Replace the English rules in stored verdicts with reason codes, so that pages can show old calls in the reader's language.

Texts that aren't listed here, such as those of plugins, stay as they are. Commits in pages and can be repeated. The codes are a
copy of those in use when this migration was written, so that the migration does not import live code.
"""

import functools
import json
import re

from django.db import migrations, transaction

PAGE = 500
ONLY_PLUGINS = 'allow list ignored, as it names only plugins'

# In each table: text without its value in backticks -> code and the name of the parameter, if any.
SOURCES = {
    'profile': ('policy.profile', 'name'),
    'default profile': ('policy.default_profile', 'name'),
    'unknown profile': ('policy.unknown_profile', 'name'),
    'key': ('policy.access_token', 'name'),
    'sandbox list': ('policy.sandbox_list', ''),
    'subagent list': ('policy.subagent_list', ''),
    'webhook list': ('policy.webhook_list', ''),
}
RULES = {
    'allow entry': ('policy.allow_entry', 'entry'),
    'also allow entry': ('policy.also_allow_entry', 'entry'),
    'deny entry': ('policy.deny_entry', 'entry'),
    'no allow entry matches': ('policy.not_listed', ''),
    'no limit': ('policy.no_limit', ''),
}
RULES_OF_A_SOURCE = {text: (f'{code}_in', parameter) for text, (code, parameter) in RULES.items()}
REASONS = {
    ONLY_PLUGINS: ('policy.only_plugins', ''),
    'no rule': ('policy.no_rule', ''),
    'open to everybody': ('policy.open', ''),
    'only for the owner': ('policy.owner_only', ''),
    'there is no such tool in this run': ('tool.unknown', ''),
    'the policy refused it when this run began': ('tool.denied_at_start', ''),
    'this version does not have it yet': ('tool.not_installed', ''),
    'there is no workspace': ('tool.no_workspace', ''),
    'commands need a workspace': ('tool.no_workspace', ''),
    'there is nowhere to speak from outside of a run': ('tool.outside_run', ''),
    'notes are read for the owner of the session only': ('tool.notes_of_owner', ''),
    'images cannot be shown to the model': ('tool.no_image_input', 'model'),
    'made for models of OpenAI, and this one is': ('tool.openai_only', 'model'),
    'no search engine is configured: set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY': ('tool.no_search_engine', ''),
    'CLAWSITE_SEARCH_PROVIDER names an unknown search engine:': ('tool.search_engine_unknown', 'name'),
    'CLAWSITE_SEARCH_PROVIDER names a search engine that is not configured:': ('tool.search_engine_not_configured', 'name'),
    'it could not be made, see the log:': ('tool.factory_failed', 'error'),
    'its factory returns nothing that could be called': ('tool.factory_without_function', ''),
    'its factory makes no plan of what it would do': ('tool.factory_without_plan', ''),
}
# Kind of a tool's source and what happened to it -> code.
SOURCE_REASONS = {
    ('plugin', 'does not offer it any more'): 'source.plugin_dropped_it',
    ('plugin', 'cannot be used now'): 'source.plugin_failed',
    ('plugin', 'was switched off'): 'source.plugin_disabled',
    ('MCP server', 'does not offer it any more'): 'source.server_dropped_it',
    ('MCP server', 'cannot be used now'): 'source.server_failed',
    ('MCP server', 'was switched off'): 'source.server_disabled',
    ('its source', 'was removed'): 'source.removed',
}
NAMED = re.compile(r'(.+?) `(.+)`')
SOURCE = re.compile(r'(plugin|MCP server|its source) `(.+)` (.+)')


@functools.lru_cache(maxsize=4096)
def convert_text(text):
    """Return the text as a reason, or unchanged if it isn't one of ours."""
    if about := SOURCE.fullmatch(text):
        code = SOURCE_REASONS.get((about[1], about[3]))
        return {'code': code, 'params': {'name': about[2]}} if code else text
    if reason := find_reason(REASONS, text) or find_reason(RULES, text):
        return reason
    source_text, _colon, rule_text = text.partition(': ')
    if rule_text == ONLY_PLUGINS:  # about the operator's rule, not the source
        return find_reason(REASONS, rule_text)
    source, rule = find_reason(SOURCES, source_text), find_reason(RULES_OF_A_SOURCE, rule_text)
    return {**rule, 'params': {**rule.get('params', {}), 'source': source}} if source and rule else text


def find_reason(table, text):
    """Return the reason for a text such as "deny entry `exec`"; None if the table doesn't have it."""
    found = NAMED.fullmatch(text)
    label, value = (found[1], found[2]) if found else (text, '')
    code, parameter = table.get(label, ('', ''))
    if not code or bool(parameter) != bool(value):
        return None
    return {'code': code, 'params': {parameter: value}} if parameter else {'code': code}


def convert_verdict(verdict):
    """Return a copy with the texts converted; reasons that are codes already stay."""
    converted = dict(verdict)
    if isinstance(verdict.get('not_offered'), str):
        converted['not_offered'] = convert_text(verdict['not_offered'])
    if isinstance(verdict.get('trace'), dict):
        converted['trace'] = {
            tool: [{**step, 'rule': convert_text(step['rule'])} if isinstance(step['rule'], str) else step for step in steps]
            for tool, steps in verdict['trace'].items()
        }
    return converted


def convert_verdicts(apps, schema_editor):
    ToolCall, connection = apps.get_model('sessions_app', 'ToolCall'), schema_editor.connection
    value = '%s::jsonb' if connection.vendor == 'postgresql' else '%s'
    update = f'UPDATE {ToolCall._meta.db_table} SET verdict = {value} WHERE id = %s'
    calls = ToolCall.objects.using(connection.alias).order_by('pk').values_list('pk', 'verdict')
    last = 0
    while page := list(calls.filter(pk__gt=last)[:PAGE]):
        changes = [(json.dumps(new), pk) for pk, verdict in page if (new := convert_verdict(verdict)) != verdict]
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            if changes:
                cursor.executemany(update, changes)
        last = page[-1][0]


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('sessions_app', '0016_run_waits'),
    ]

    operations = [
        migrations.RunPython(convert_verdicts, migrations.RunPython.noop),
    ]
