"""Store in each grant who gave it, and name approver groups by ID, because IDs are never reused."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def keep_who_agreed(apps: Any, schema_editor: Any) -> None:
    """If a grant's approval request is gone, only its owner is known, so it counts as given by one person.

    Programs that an operator added have neither an argument shape nor a line; grants from approvals have one of them.
    """
    Grant, ApprovalVote = apps.get_model("tools_app", "Grant"), apps.get_model("tools_app", "ApprovalVote")
    for grant in Grant.objects.select_related("approval").iterator():
        shaped = any(entry.get("shape") is not None for entry in grant.entries)
        if not (grant.approval_id or grant.line or shaped):
            continue
        votes = ApprovalVote.objects.filter(approval=grant.approval_id) if grant.approval_id else ApprovalVote.objects.none()
        others = list(votes.exclude(user=grant.owner_id).values_list("user_id", flat=True))
        # If there are several votes, it is unknown which one counted, so the grant counts as given by one person.
        Grant.objects.filter(pk=grant.pk).update(from_answer=True, seconded_by=others[0] if len(others) == 1 else None)


def name_groups_by_id(apps: Any, schema_editor: Any) -> None:
    """Convert group names to IDs. A name that no group has anymore becomes an ID that no group has."""
    Approval, Group = apps.get_model("tools_app", "Approval"), apps.get_model("auth", "Group")
    ids = dict(Group.objects.values_list("name", "pk"))
    for pk, lists in Approval.objects.values_list("pk", "approver_groups").iterator():
        if lists:
            known = [sorted(ids[name] for name in names if name in ids) for names in lists]
            Approval.objects.filter(pk=pk).update(approver_groups=known)


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("tools_app", "0005_exec"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="approval",
            name="void_reason",
            field=models.CharField(
                blank=True, help_text="After it was answered", max_length=1000, verbose_name="why it became void"
            ),
        ),
        migrations.AlterField(
            model_name="approval",
            name="approver_groups",
            field=models.JSONField(
                default=list, help_text="Lists of group ids; somebody must be in one of each list", verbose_name="who may approve"
            ),
        ),
        migrations.AddField(
            model_name="grant",
            name="from_answer",
            field=models.BooleanField(
                default=False, help_text="Counts only while whoever gave it may still give it", verbose_name="from an answer"
            ),
        ),
        migrations.AddField(
            model_name="grant",
            name="seconded_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="seconded by",
            ),
        ),
        migrations.RunPython(keep_who_agreed, migrations.RunPython.noop),
        migrations.RunPython(name_groups_by_id, migrations.RunPython.noop),
    ]
