from django.db import migrations

MODELS = ("hook", "hookdelivery", "spentsignature")


def _move(apps, schema_editor, old_label, new_label):
    """Give the content types, and with them the permissions, the new app label. Their IDs stay the same.

    If post_migrate has created a content type with the new label, merge it into the old one first.
    """
    database = schema_editor.connection.alias
    content_types = apps.get_model("contenttypes", "ContentType").objects.using(database)
    for kept in content_types.filter(app_label=old_label, model__in=MODELS):
        for other in content_types.filter(app_label=new_label, model=kept.model):
            _merge(apps, database, other, kept)
        kept.app_label = new_label
        kept.save(update_fields=["app_label"])


def _merge(apps, database, other, kept):
    permissions = apps.get_model("auth", "Permission").objects.using(database)
    groups = apps.get_model("auth", "Group").objects.using(database)
    users = apps.get_model("accounts", "User").objects.using(database)
    for permission in permissions.filter(content_type=other):
        same = permissions.filter(content_type=kept, codename=permission.codename).first()
        if same is None:
            permission.content_type = kept
            permission.save(update_fields=["content_type"])
            continue
        for group in groups.filter(permissions=permission):
            group.permissions.add(same)
        for user in users.filter(user_permissions=permission):
            user.user_permissions.add(same)
        permission.delete()
    apps.get_model("admin", "LogEntry").objects.using(database).filter(content_type=other).update(content_type=kept)
    other.delete()


def to_connectors(apps, schema_editor):
    _move(apps, schema_editor, "gateway", "connectors")


def to_gateway(apps, schema_editor):
    _move(apps, schema_editor, "connectors", "gateway")


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_tokens_made_with_tokens"),
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("connectors", "0001_webhooks"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(to_connectors, to_gateway)]
