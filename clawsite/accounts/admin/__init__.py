"""Accounts in the admin. Django only imports `<app>.admin`, so every module that registers a page is imported here."""

from clawsite.accounts.admin import access, accounts  # noqa: F401  # register their pages
