"""Store which approval requests parked runs wait for."""

import time

from django.db import migrations


def record_waits(apps, schema_editor):
    runs = apps.get_model("sessions_app", "Run").objects.filter(status="waiting")
    RunWait = apps.get_model("sessions_app", "RunWait")
    pending = apps.get_model("tools_app", "Approval").objects.filter(status="pending", run__in=runs).order_by("created_at", "pk")
    numbers = {}
    for approval in pending:
        number = numbers[approval.run_id] = numbers.get(approval.run_id, -1) + 1
        wait = {"kind": "approval", "reference": str(approval.pk), "alternative": number, "created_at": approval.created_at}
        RunWait.objects.create(run_id=approval.run_id, **wait)
    # Nothing would ever wake the other runs, so make them ready: they check again and park again if necessary.
    runs.filter(ready_at__isnull=True).exclude(pk__in=numbers).update(ready_at=time.time())


class Migration(migrations.Migration):

    dependencies = [
        ("sessions_app", "0016_run_waits"),
        ("tools_app", "0006_who_agreed_is_kept"),
    ]

    operations = [migrations.RunPython(record_waits, migrations.RunPython.noop)]
