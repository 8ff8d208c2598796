"""Deliver webhook text only to runs with the webhook's limits; text that is already pending is recognized by its source."""

from django.db import migrations, models

SOURCE = "/hooks/"


def mark_those_that_wait(apps, schema_editor):
    waiting = apps.get_model("sessions_app", "SystemEvent").objects.filter(source__startswith=SOURCE)
    for event in waiting:
        event.hook = event.source[len(SOURCE) :][:64]
        event.save(update_fields=["hook"])


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0013_sessions_of_one_request'),
    ]

    operations = [
        migrations.AddField(
            model_name='systemevent',
            name='hook',
            field=models.CharField(blank=True, default='', help_text='Whose words these are: only a run with the limits of that webhook is told them', max_length=64, verbose_name='webhook'),
        ),
        migrations.RunPython(mark_those_that_wait, migrations.RunPython.noop),
    ]
