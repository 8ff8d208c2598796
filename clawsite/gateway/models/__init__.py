"""The tables of the gateway, one file a noun."""

from clawsite.gateway.models.device import Device
from clawsite.gateway.models.device_token import DeviceToken
from clawsite.gateway.models.hook import Hook
from clawsite.gateway.models.hook_delivery import HookDelivery
from clawsite.gateway.models.node_invocation import NodeInvocation
from clawsite.gateway.models.pairing_request import PairingRequest
from clawsite.gateway.models.spent_signature import SpentSignature

__all__ = ["Device", "DeviceToken", "Hook", "HookDelivery", "NodeInvocation", "PairingRequest", "SpentSignature"]
