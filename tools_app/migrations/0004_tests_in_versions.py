from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tools_app", "0003_sources_from_outside")]

    # In two steps: versions that are there have no tests on record, those to come do.
    operations = [
        migrations.AddField("policyversion", "tests", models.JSONField(null=True, verbose_name="tests")),
        migrations.AlterField("policyversion", "tests", models.JSONField(default=list, null=True, verbose_name="tests")),
    ]
