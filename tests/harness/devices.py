"""A device with an Ed25519 key that signs like OpenClaw's clients. Written from the protocol description, not from our code."""

import base64
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.harness.protocol import InProcessClient, SocketClient, SocketClients

CLIENT = {"id": "openclaw-tui", "version": "1", "platform": "Linux", "mode": "ui", "deviceFamily": "Desk"}
NODE_CLIENT = {"id": "node-host", "version": "2", "platform": "macos", "mode": "node", "displayName": "Kitchen"}


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class FakeDevice:
    def __init__(self, seed: int = 0) -> None:
        self.key = Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32)) if seed else Ed25519PrivateKey.generate()
        raw = self.key.public_key().public_bytes_raw()
        self.id, self.public_key = sha256(raw).hexdigest(), base64url(raw)
        self.token = ""  # the device token it received

    def sign(self, text: str) -> str:
        return base64url(self.key.sign(text.encode()))

    def params(self, challenge: dict[str, Any], *, form: str = "v3", **connect: Any) -> dict[str, Any]:
        """Return parameters of `connect`, signed in one of the three formats."""
        role = connect.get("role", "operator")
        client = {**(NODE_CLIENT if role == "node" else CLIENT), **connect.pop("client", {})}
        protocol = connect.pop("protocol", 4)
        auth = connect.get("auth") or {}
        token = auth.get("token") or auth.get("deviceToken") or ""
        signed_at = connect.pop("signed_at", challenge["ts"])
        fields = [form, self.id, client["id"], client["mode"], role, ",".join(connect.get("scopes", [])), str(signed_at), token]
        proof: dict[str, Any] = {"id": self.id, "publicKey": self.public_key, "signedAt": signed_at}
        if form != "v1":
            fields.append(challenge["nonce"])
            proof["nonce"] = challenge["nonce"]
        if form == "v3":
            fields += [client["platform"].lower(), client.get("deviceFamily", "").lower()]
        proof["signature"] = self.sign("|".join(fields))
        return {"minProtocol": protocol, "maxProtocol": protocol, "client": client, "device": proof, **connect}

    async def try_connect(
        self, sockets: SocketClients, *, form: str = "v3", proof: dict[str, Any] | None = None, **connect: Any
    ) -> Any:
        """Return (socket, response frame) of a connect; `proof` overrides fields of the device's proof."""
        socket = await sockets.open(headers=connect.pop("headers", None))
        challenge = await socket.event("connect.challenge")
        params = self.params(challenge, form=form, **connect)
        params["device"] |= proof or {}
        return socket, await socket.request("connect", params)

    async def connect(self, sockets: SocketClients, **connect: Any) -> SocketClient:
        """Return a connected socket, and keep the device token if the gateway sends one."""
        socket, response = await self.try_connect(sockets, **connect)
        assert response["ok"], response
        socket.hello = response["payload"]
        self.token = socket.hello["auth"].get("deviceToken", self.token)
        return socket

    async def connect_error(self, sockets: SocketClients, **connect: Any) -> dict[str, Any]:
        socket, response = await self.try_connect(sockets, **connect)
        assert not response["ok"], response
        assert (await socket.closed())[0] == 1008
        return response["error"]


async def connect_node(device: FakeDevice, token: str, **declared: Any) -> InProcessClient:
    """Return an in-process client connected as a node. The token's owner must be allowed to approve its pairing request."""
    operator = await InProcessClient.open(token)
    connect = {"role": "node", "auth": {"token": token}, **declared}
    for _ in range(2):  # the first attempt creates a pairing request
        client = InProcessClient()
        await client.start()
        challenge = await client.event("connect.challenge")
        answer = await client.request("connect", device.params(challenge, **connect))
        if answer["ok"]:
            break
        client.disconnect()
        await operator.request("node.pair.approve", {"requestId": answer["error"]["details"]["requestId"]})
    operator.disconnect()
    assert answer["ok"], answer
    device.token = answer["payload"]["auth"].get("deviceToken", device.token)
    return client
