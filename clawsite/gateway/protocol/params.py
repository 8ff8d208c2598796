"""Parameter types that methods of the gateway and the REST API share."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from clawsite.routing.attachments import InlineFile

Key = Annotated[str, Field(min_length=1, max_length=512)]

Id = Annotated[str, Field(min_length=1, max_length=64)]

IdempotencyKey = Annotated[str, Field(min_length=1, max_length=200)]

Cursor = Annotated[int, Field(ge=0, le=2**53)]  # the largest whole number that every client can write

IsoTime = Annotated[str, Field(min_length=1, max_length=64)]


class Params(BaseModel):
    """Parameters of a method: camelCase on the wire, and closed, so that a misspelt one is told instead of ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, protected_namespaces=())

    # What OpenClaw's clients may ask for and is not done here, each with the reason. Nobody is misled by an empty one.
    refused: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _explain_rejected(cls, given: Any) -> Any:
        if not isinstance(given, dict) or cls.refused.keys().isdisjoint(given):
            return given
        faults = [
            InitErrorDetails(type=PydanticCustomError("not_here", "Cannot be used: " + cls.refused[name]), loc=(name,), input=None)
            for name in given
            if name in cls.refused and given[name]
        ]
        if faults:
            raise ValidationError.from_exception_data(cls.__name__, faults)
        return {name: value for name, value in given.items() if name not in cls.refused}


class AttachmentParams(BaseModel):
    """The `id` of an upload, or the file itself: `content` as base64 (at most 5,000,000 bytes decoded) with its `fileName`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    id: Id | None = None
    type: str | None = Field(None, max_length=64)  # OpenClaw's clients say "image" or "file"; the bytes decide
    mime_type: str | None = Field(None, max_length=100)
    file_name: str | None = Field(None, max_length=1000)
    content: str | None = Field(None, min_length=1, max_length=7_000_000)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.id is None) == (self.content is None):
            raise ValueError("give either the id of an upload or the content of a file")
        return self

    def file(self) -> str | InlineFile:
        return self.id or InlineFile(self.file_name or "file", self.mime_type or "", self.content or "")
