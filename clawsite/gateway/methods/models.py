"""List models, and which providers have an API key."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from agents.prepare.model_choice import list_offered_models
from clawsite.gateway.protocol.params import Id, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.infra import clock, db


class ModelsParams(Params):
    """The result is the same for every session and agent."""

    refused: ClassVar[Mapping[str, str]] = {"authProfileId": "API keys belong to the server and are tried in order"}

    agent_id: Id | None = None
    session_key: Key | None = None
    provider: str = Field("", max_length=100)  # list only this provider's models
    view: Literal["default", "configured", "provider-config", "all"] = "default"
    refresh: bool = False
    prepared_only: bool = Field(False)
    include_provider_capabilities: bool | None = None  # this and the following are ignored: there is no more information
    include_details: bool | None = None
    include_default_models: bool | None = None


class Model(TypedDict):
    id: str
    name: str
    provider: str
    reasoning: bool
    available: bool
    contextWindow: NotRequired[int]
    unavailableReason: NotRequired[str]


class ModelsAnswer(TypedDict):
    models: list[Model]


@method("models.list", scope=Scope.READ)
async def models_list(call: Call, params: ModelsParams) -> ModelsAnswer:
    """List the available models. `configured` omits those whose API key is missing."""
    models = await db.read(list_wire_models, usable_only=params.view == "configured")
    return ModelsAnswer(models=[model for model in models if params.provider in ("", model["provider"])])


def list_wire_models(*, usable_only: bool) -> list[Model]:
    return [Model(**row) for row in list_offered_models() if row["available"] or not usable_only]


class AuthParams(Params):
    refresh: bool = False  # ignored: always refreshed
    agent_id: Id | None = None  # ignored: API keys belong to the server


class ProviderAuth(TypedDict):
    """`static`: there is an API key, or none is needed. `missing`: the provider's models can't be used."""

    provider: str
    displayName: str
    status: Literal["static", "missing"]
    profiles: list[dict[str, Any]]


class AuthAnswer(TypedDict):
    ts: int
    providers: list[ProviderAuth]


@method("models.authStatus", scope=Scope.READ)
async def auth_status(call: Call, params: AuthParams) -> AuthAnswer:
    """List which providers have an API key. Never includes any part of the key."""
    return AuthAnswer(ts=clock.now_ms(), providers=await db.read(_list_providers))


def _list_providers() -> list[ProviderAuth]:
    usable: dict[str, bool] = {}
    for row in list_offered_models():
        usable[row["provider"]] = usable.get(row["provider"], False) or row["available"]
    return [
        ProviderAuth(provider=name, displayName=name, status="static" if available else "missing", profiles=[])
        for name, available in usable.items()
        if name
    ]
