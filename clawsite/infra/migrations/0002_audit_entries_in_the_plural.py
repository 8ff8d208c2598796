from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("infra", "0001_audit")]

    operations = [
        migrations.AlterModelOptions(
            name="auditentry",
            options={"default_permissions": ("view",), "verbose_name": "audit entry", "verbose_name_plural": "audit entries"},
        ),
    ]
