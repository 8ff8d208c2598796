from django.db import migrations, models

from sessions_app.search_index import drop_tables, make_tables


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
        migrations.RunPython(make_tables, drop_tables),
    ]
