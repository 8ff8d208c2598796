from django.db import migrations

MODELS = ("hook", "hookdelivery", "spentsignature")


def _move(apps, schema_editor, old_label, new_label):
    """Give the content types, and with them the permissions, the new app label.

    If a content type of the new label exists, move the permissions, their holders and the admin log to it and delete the old one.
    """
    database = schema_editor.connection.alias
    ContentType = apps.get_model("contenttypes", "ContentType")
    for old in ContentType.objects.using(database).filter(app_label=old_label, model__in=MODELS):
        new = ContentType.objects.using(database).filter(app_label=new_label, model=old.model).first()
        if new is None:
            old.app_label = new_label
            old.save(update_fields=["app_label"])
        else:
            _merge(apps, database, old, new)


def _merge(apps, database, old, new):
    Permission = apps.get_model("auth", "Permission")
    Group, User = apps.get_model("auth", "Group"), apps.get_model("accounts", "User")
    LogEntry = apps.get_model("admin", "LogEntry")
    for permission in Permission.objects.using(database).filter(content_type=old):
        same = Permission.objects.using(database).filter(content_type=new, codename=permission.codename).first()
        if same is None:
            permission.content_type = new
            permission.save(update_fields=["content_type"])
            continue
        for group in Group.objects.using(database).filter(permissions=permission):
            group.permissions.add(same)
        for user in User.objects.using(database).filter(user_permissions=permission):
            user.user_permissions.add(same)
        permission.delete()
    LogEntry.objects.using(database).filter(content_type=old).update(content_type=new)
    old.delete()


def to_connectors(apps, schema_editor):
    _move(apps, schema_editor, "gateway", "connectors")


def to_gateway(apps, schema_editor):
    _move(apps, schema_editor, "connectors", "gateway")


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0006_reword_labels"),
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("connectors", "0001_webhooks"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(to_connectors, to_gateway)]
