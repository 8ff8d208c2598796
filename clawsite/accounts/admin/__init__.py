"""Accounts in the admin. Django imports `<app>.admin` only, so every module that registers a page is imported here."""

from clawsite.accounts.admin import access, accounts  # noqa: F401  # register their pages
