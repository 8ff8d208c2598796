from django.db import migrations, models

TABLE = 'sessions_app_words'


def create_table(apps, schema_editor):
    if schema_editor.connection.vendor == 'postgresql':
        schema_editor.execute(
            f'CREATE TABLE {TABLE} (entry_id bigint PRIMARY KEY '
            'REFERENCES sessions_app_transcriptentry (id) ON DELETE CASCADE, words tsvector NOT NULL)'
        )
        schema_editor.execute(f'CREATE INDEX {TABLE}_gin ON {TABLE} USING gin (words)')
    else:
        schema_editor.execute(f"CREATE VIRTUAL TABLE {TABLE} USING fts5(words, tokenize='ascii', detail=none)")


def drop_table(apps, schema_editor):
    schema_editor.execute(f'DROP TABLE IF EXISTS {TABLE}')


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0004_rewinds'),
    ]

    operations = [
        migrations.AddField(
            model_name='session',
            name='title_words',
            field=models.TextField(blank=True, editable=False, help_text='Title and label as the search knows them', verbose_name='title words'),
        ),
        migrations.RunPython(create_table, drop_table),
    ]
