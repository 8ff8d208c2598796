"""Add a column for why the system closed an approval request. `void_reason` stays for processes of the previous version."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("tools_app", "0007_waits_for_approval"),
    ]

    operations = [
        migrations.AddField(
            model_name="approval",
            name="system_reason",
            field=models.JSONField(
                blank=True, help_text="Why the system closed it: a code with parameters", null=True, verbose_name="system reason"
            ),
        ),
        migrations.AlterField(
            model_name="approval",
            name="reason",
            field=models.CharField(
                blank=True, help_text="Written by the approver; the agent sees it", max_length=1000, verbose_name="reason"
            ),
        ),
        migrations.AlterField(
            model_name="approval",
            name="void_reason",
            field=models.CharField(blank=True, db_default="", editable=False, max_length=1000),
        ),
    ]
