"""Store what parked runs wait for. Runs parked by a freeze get their row here; `tools_app` adds those that wait for approval."""

import django.db.models.deletion
from django.db import migrations, models


def record_freezes(apps, schema_editor):
    runs = apps.get_model("sessions_app", "Run").objects.filter(status="waiting")
    RunWait = apps.get_model("sessions_app", "RunWait")
    for freeze in apps.get_model("sessions_app", "Freeze").objects.filter(lifted_at__isnull=True):
        covered = {"all": {}, "agent": {"session__agent": freeze.subject}, "run": {"pk": freeze.subject}}[freeze.scope]
        for run in runs.filter(**covered):
            RunWait.objects.create(run=run, kind="frozen", reference=str(freeze.pk), created_at=freeze.at)
    runs.update(reason="")  # from now on only why a run ended


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0015_deferred_calls'),
    ]

    operations = [
        migrations.CreateModel(
            name='RunWait',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('approval', 'Approval'), ('child', 'Another run'), ('answer', 'A user’s answer'), ('budget', 'Budget'), ('model', 'Model'), ('external', 'External result'), ('frozen', 'Freeze')], max_length=16, verbose_name='kind')),
                ('reference', models.CharField(help_text='ID of the row that the run waits for', max_length=200, verbose_name='reference')),
                ('alternative', models.PositiveSmallIntegerField(default=0, help_text='The run continues when nothing is left to wait for in one of its alternatives.', verbose_name='alternative')),
                ('deadline', models.FloatField(blank=True, null=True, verbose_name='deadline')),
                ('created_at', models.DateTimeField(verbose_name='since')),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='waits', to='sessions_app.run', verbose_name='run')),
            ],
            options={
                'verbose_name': 'wait',
                'verbose_name_plural': 'waits',
                'default_permissions': (),
                'indexes': [models.Index(fields=['kind', 'reference'], name='wait_by_reference'), models.Index(condition=models.Q(('deadline__isnull', False)), fields=['deadline'], name='wait_by_deadline')],
                'constraints': [models.UniqueConstraint(fields=('run', 'kind', 'reference'), name='one_wait_per_run_and_reference')],
            },
        ),
        migrations.RunPython(record_freezes, migrations.RunPython.noop),
    ]
