"""The tables of the gateway, one file per model."""

from clawsite.gateway.models.device import Device
from clawsite.gateway.models.device_token import DeviceToken
from clawsite.gateway.models.node_invocation import NodeInvocation
from clawsite.gateway.models.pairing_request import PairingRequest

__all__ = ["Device", "DeviceToken", "NodeInvocation", "PairingRequest"]
