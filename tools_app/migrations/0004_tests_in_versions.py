from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tools_app", "0003_sources_from_outside")]

    # In two steps: existing versions have no recorded tests, later ones do.
    operations = [
        migrations.AddField("policyversion", "tests", models.JSONField(null=True, verbose_name="tests")),
        migrations.AlterField("policyversion", "tests", models.JSONField(default=list, null=True, verbose_name="tests")),
    ]
