"""The tables of all connectors."""

from clawsite.connectors.webhook.models import Hook, HookDelivery, SpentSignature

__all__ = ["Hook", "HookDelivery", "SpentSignature"]
