import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0002_event_log'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='SessionMark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pinned_at', models.DateTimeField(blank=True, null=True, verbose_name='pinned')),
                ('archived_at', models.DateTimeField(blank=True, null=True, verbose_name='archived')),
                ('read_position', models.PositiveIntegerField(default=0, help_text='Transcript entries up to here have been seen', verbose_name='read position')),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='marks', to='sessions_app.session', verbose_name='session')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='user')),
            ],
            options={
                'verbose_name': 'session mark',
                'verbose_name_plural': 'session marks',
                'indexes': [
                    models.Index(condition=models.Q(('pinned_at__isnull', False)), fields=['user', '-pinned_at'], name='mark_pinned'),
                    models.Index(condition=models.Q(('archived_at__isnull', False)), fields=['user', 'session'], name='mark_archived'),
                ],
                'constraints': [models.UniqueConstraint(fields=('user', 'session'), name='one_mark_per_user_and_session')],
            },
        ),
    ]
