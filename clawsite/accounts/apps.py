from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class AccountsConfig(AppConfig):
    name = "clawsite.accounts"
    label = "accounts"
    verbose_name = _("Accounts")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from clawsite.accounts import audit, change_notices, group_deletion
        from clawsite.accounts.groups import install_groups
        from clawsite.accounts.sign_in import browsers, recent_password
        from clawsite.accounts.tokens import install_gateway_user

        change_notices.connect_signals()
        browsers.connect_signals()
        audit.connect_signals()
        recent_password.connect_signals()
        group_deletion.connect_signals()
        # Permissions are created app by app, so groups are installed after the last app that has any.
        last = [app for app in apps.get_app_configs() if app.models_module][-1]
        post_migrate.connect(install_groups, sender=last, dispatch_uid="clawsite.accounts.groups")
        post_migrate.connect(install_gateway_user, sender=last, dispatch_uid="clawsite.accounts.gateway_user")
