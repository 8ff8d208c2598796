"""What was said before there was a search can be found, and is not called unread."""

from django.db import migrations

from sessions_app.search_index import index_stored
from sessions_app.search_words import title_words


def know_titles(apps, schema_editor):
    Session = apps.get_model('sessions_app', 'Session')
    for session in Session.objects.only('title', 'label').iterator():
        Session.objects.filter(pk=session.pk).update(title_words=title_words(session.title, session.label))


def owners_have_read(apps, schema_editor):
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
        migrations.RunPython(index_stored, migrations.RunPython.noop),
        migrations.RunPython(know_titles, migrations.RunPython.noop),
        migrations.RunPython(owners_have_read, migrations.RunPython.noop),
    ]
