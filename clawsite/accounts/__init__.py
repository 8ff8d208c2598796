"""Accounts: users, groups, access tokens, sign-in."""
