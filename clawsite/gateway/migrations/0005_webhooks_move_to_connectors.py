from django.db import migrations


class Migration(migrations.Migration):
    """The tables stay. connectors 0001 adds the models to the state of their new app."""

    dependencies = [("gateway", "0004_webhooks_ask_the_person_they_act_for")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel("SpentSignature"),
                migrations.DeleteModel("HookDelivery"),
                migrations.DeleteModel("Hook"),
            ]
        )
    ]
