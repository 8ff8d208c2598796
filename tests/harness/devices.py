"""A device for tests: an Ed25519 key that signs as OpenClaw's clients do. Written from the description, not from our own code."""

import base64
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.harness.gateway import Socket, Sockets
from tests.harness.protocol import Desk

CLIENT = {"id": "openclaw-tui", "version": "1", "platform": "Linux", "mode": "ui", "deviceFamily": "Desk"}
NODE_CLIENT = {"id": "node-host", "version": "2", "platform": "macos", "mode": "node", "displayName": "Kitchen"}


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class TestDevice:
    __test__ = False

    def __init__(self, seed: int = 0) -> None:
        self.key = Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32)) if seed else Ed25519PrivateKey.generate()
        raw = self.key.public_key().public_bytes_raw()
        self.id, self.public_key = sha256(raw).hexdigest(), base64url(raw)
        self.token = ""  # the device token it was given

    def sign(self, text: str) -> str:
        return base64url(self.key.sign(text.encode()))

    def params(self, challenge: dict[str, Any], *, form: str = "v3", **connect: Any) -> dict[str, Any]:
        """Parameters of `connect` with a proof in one of the three forms; whatever else `connect` says is signed with it."""
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

    async def knock(self, sockets: Sockets, *, form: str = "v3", proof: dict[str, Any] | None = None, **connect: Any) -> Any:
        """(socket, answer frame) of a connect; `proof` changes what the device sends of itself."""
        socket = await sockets.open(headers=connect.pop("headers", None))
        challenge = await socket.event("connect.challenge")
        params = self.params(challenge, form=form, **connect)
        params["device"] |= proof or {}
        return socket, await socket.request("connect", params)

    async def connect(self, sockets: Sockets, **connect: Any) -> Socket:
        """A socket after its handshake. A device token that comes with it is kept."""
        socket, answer = await self.knock(sockets, **connect)
        assert answer["ok"], answer
        socket.hello = answer["payload"]
        self.token = socket.hello["auth"].get("deviceToken", self.token)
        return socket

    async def refused(self, sockets: Sockets, **connect: Any) -> dict[str, Any]:
        socket, answer = await self.knock(sockets, **connect)
        assert not answer["ok"], answer
        assert (await socket.closed())[0] == 1008
        return answer["error"]


async def node_at_desk(device: TestDevice, token: str, **declared: Any) -> Desk:
    """A client without a socket that is a node; whose token it brings must be somebody who may let it in."""
    operator = await Desk.open(token)
    connect = {"role": "node", "auth": {"token": token}, **declared}
    for _ in range(2):  # the first time it is only heard of
        desk = Desk()
        await desk.knock()
        challenge = await desk.find(lambda frame: frame.get("event") == "connect.challenge")
        answer = await desk.request("connect", device.params(challenge["payload"], **connect))
        if answer["ok"]:
            break
        desk.leave()
        await operator.request("node.pair.approve", {"requestId": answer["error"]["details"]["requestId"]})
    operator.leave()
    assert answer["ok"], answer
    device.token = answer["payload"]["auth"].get("deviceToken", device.token)
    return desk
