from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0003_session_marks'),
    ]

    operations = [
        migrations.AddField(
            model_name='transcriptentry',
            name='keep_through',
            field=models.PositiveIntegerField(blank=True, help_text='Of a rewind: the last position that stays', null=True, verbose_name='keep through'),
        ),
        migrations.AlterField(
            model_name='transcriptentry',
            name='kind',
            field=models.CharField(choices=[('message', 'Message'), ('tool_result', 'Tool Result'), ('compaction', 'Compaction'), ('session', 'Session'), ('rewind', 'Rewind')], max_length=16, verbose_name='kind'),
        ),
        migrations.AddIndex(
            model_name='transcriptentry',
            index=models.Index(condition=models.Q(('kind', 'rewind')), fields=['session', 'position'], name='entry_rewind'),
        ),
    ]
