"""Create the first administrator: from the environment, or by a one-time link.

Both stop working once an administrator exists. `serve` prints the link; only its digest is stored.
"""

import hmac
import logging
import os
import secrets
from datetime import timedelta
from hashlib import sha256

from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from clawsite.accounts.groups import APPROVER, OPERATOR, USER
from clawsite.accounts.models import FirstAdminLink, User
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound

log = logging.getLogger(__name__)

LINK_LIFETIME = timedelta(hours=24)


def admin_exists() -> bool:
    """Return whether a person can administer the server: an active superuser or Operator."""
    admins = Q(is_superuser=True) | Q(groups__name=OPERATOR)
    return User.objects.filter(admins, is_active=True, is_service=False).exists()


def create_first_admin_link(base_url: str) -> str | None:
    """Return a new link that replaces any earlier one, or None if an administrator exists or the environment defines one."""
    if create_from_environment() or admin_exists():
        return None
    token = secrets.token_urlsafe(32)
    fields = {"digest": hash_token(token), "expires_at": timezone.now() + LINK_LIFETIME, "used_at": None}
    FirstAdminLink.objects.update_or_create(pk=FirstAdminLink.ONLY, defaults=fields)
    return f"{base_url.rstrip('/')}/first-admin/{token}/"


def create_from_environment() -> User | None:
    """Create the account from CLAWSITE_ADMIN_USERNAME and CLAWSITE_ADMIN_PASSWORD, unless an administrator exists."""
    username = os.environ.get("CLAWSITE_ADMIN_USERNAME", "").strip()
    password = os.environ.pop("CLAWSITE_ADMIN_PASSWORD", "")  # always removed, so that child processes don't inherit it
    if not username or not password:
        return None
    try:
        User.username_validator(username)
    except ValidationError as error:
        raise InvalidRequest(f"CLAWSITE_ADMIN_USERNAME is {username!r}: {' '.join(error.messages)}") from error
    with transaction.atomic():
        if admin_exists():
            return None
        try:
            validate_password(password, User(username=username))
        except ValidationError as weak:  # only a warning: whoever controls the environment controls the host
            log.warning("CLAWSITE_ADMIN_PASSWORD is weak: %s", " ".join(weak.messages))
        user = _create_admin(username, password)
    log.info("created the first administrator %s from the environment", user.pk)
    return user


def hash_token(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def is_link_open(digest: str) -> bool:
    """Return whether the link can still be used."""
    link = FirstAdminLink.objects.filter(pk=FirstAdminLink.ONLY, used_at__isnull=True, expires_at__gt=timezone.now()).first()
    return link is not None and hmac.compare_digest(link.digest, digest) and not admin_exists()


@transaction.atomic
def use_link(digest: str, username: str, password: str) -> User:
    """Create the first administrator and use up the link, both or neither."""
    open_links = FirstAdminLink.objects.filter(digest=digest, used_at__isnull=True, expires_at__gt=timezone.now())
    # A single UPDATE claims the link, so only one of two concurrent users succeeds.
    if admin_exists() or not open_links.update(used_at=timezone.now()):
        raise NotFound(_("This link was already used, has expired, or was replaced by a newer one."))
    if User.objects.filter(username=username).exists():
        raise Conflict(_("This username is taken. Choose another."))
    user = _create_admin(username, password)
    log.info("created the first administrator %s with the one-time link", user.pk)
    return user


def _create_admin(username: str, password: str) -> User:
    """Create an administrator by group membership, not a superuser.

    Operator has the permissions for every table, which is all the admin requires; a superuser would also pass every other check,
    including approvals, without an explicit grant. That is too much power for everyday work.
    """
    user, _created = User.objects.get_or_create(username=username, defaults={"is_staff": True})
    user.is_staff = user.is_active = True
    user.set_password(password)
    user.save()
    user.groups.add(*Group.objects.filter(name__in=[OPERATOR, APPROVER, USER]))
    return user
