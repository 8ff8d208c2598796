"""Index messages and titles stored before full-text search existed, and mark their sessions as read by their owners.

The tokenizer is a copy of the one in use when this migration was written, so that the migration does not import live code.
"""

import re
import unicodedata
import uuid

from django.db import migrations

PAGE = 500
MAX_WORD, MAX_INDEXED = 64, 50_000
NO_SPACES = (
    '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3040-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff'
    '\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff'
)
TOKEN = re.compile(rf'(?P<run>[{NO_SPACES}]+)|(?:[^\W_{NO_SPACES}]|[\u0900-\u0963\u0966-\u0dff])+')
ACCENTS = re.compile('[\u0300-\u036f]')


def fold(text):
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize('NFKD', unicodedata.normalize('NFKD', text).casefold())
    return unicodedata.normalize('NFC', ACCENTS.sub('', decomposed))


def tokenize(text):
    tokens = set()
    for token in TOKEN.finditer(fold(text[:MAX_INDEXED])):
        if run := token['run']:
            tokens.update(run[at : at + 2] for at in range(len(run)))
        else:
            tokens.add(token[0][:MAX_WORD])
    return tokens


def index_messages(apps, schema_editor):
    Entry = apps.get_model('sessions_app', 'TranscriptEntry')
    is_postgres = schema_editor.connection.vendor == 'postgresql'
    insert = (
        'INSERT INTO sessions_app_words (entry_id, words) VALUES (%s, array_to_tsvector(%s::text[]))'
        if is_postgres
        else 'INSERT INTO sessions_app_words (rowid, words) VALUES (%s, %s)'
    )
    entries = Entry.objects.filter(kind='message').exclude(text='').values_list('pk', 'session_id', 'session__owner_id', 'text')
    last = 0
    while page := list(entries.filter(pk__gt=last).order_by('pk')[:PAGE]):
        with schema_editor.connection.cursor() as cursor:
            for pk, session_id, owner_id, text in page:
                session = session_id if isinstance(session_id, uuid.UUID) else uuid.UUID(session_id)
                words = [*tokenize(text), f'\ue000s{session.hex}', f'\ue000o{owner_id}']
                cursor.execute(insert, [pk, words if is_postgres else ' '.join(words)])
        last = page[-1][0]


def index_titles(apps, schema_editor):
    Session = apps.get_model('sessions_app', 'Session')
    for session in Session.objects.only('title', 'label').iterator():
        if session.title or session.label:
            words = f" {' '.join(sorted(tokenize(f'{session.title} {session.label}')))} "
            Session.objects.filter(pk=session.pk).update(title_words=words)


def mark_as_read(apps, schema_editor):
    Session, SessionMark = apps.get_model('sessions_app', 'Session'), apps.get_model('sessions_app', 'SessionMark')
    marks = (
        SessionMark(session_id=session.pk, user_id=session.owner_id, read_position=session.entry_count)
        for session in Session.objects.only('owner_id', 'entry_count').iterator()
    )
    SessionMark.objects.bulk_create(marks, batch_size=1000, ignore_conflicts=True)


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0005_search'),
    ]

    operations = [
        migrations.RunPython(index_messages, migrations.RunPython.noop),
        migrations.RunPython(index_titles, migrations.RunPython.noop),
        migrations.RunPython(mark_as_read, migrations.RunPython.noop),
    ]
