"""The Clawsite server: entry points, gateway, accounts, infrastructure."""
