from django.db import migrations


class Migration(migrations.Migration):
    """The tables stay. connectors 0001 adds the models to the state of their new app."""

    dependencies = [("gateway", "0005_reword_labels")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel("SpentSignature"),
                migrations.DeleteModel("HookDelivery"),
                migrations.DeleteModel("Hook"),
            ]
        )
    ]
