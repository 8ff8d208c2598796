"""Parameter types shared by gateway methods and the REST API."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from clawsite.routing.attachments import InlineFile

Key = Annotated[str, Field(min_length=1, max_length=512)]

Id = Annotated[str, Field(min_length=1, max_length=64)]

IdempotencyKey = Annotated[str, Field(min_length=1, max_length=200)]

Cursor = Annotated[int, Field(ge=0, le=2**53)]  # the largest integer that every client can represent

IsoTime = Annotated[str, Field(min_length=1, max_length=64)]


class Params(BaseModel):
    """Parameters of a method: camelCase on the wire. Unknown ones are rejected, so that a misspelled name is noticed."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, protected_namespaces=())

    # Parameters of OpenClaw's clients that are not supported, each with the reason. Empty values are accepted and ignored.
    refused: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _explain_rejected(cls, given: Any) -> Any:
        if not isinstance(given, dict) or cls.refused.keys().isdisjoint(given):
            return given
        errors = [
            InitErrorDetails(type=PydanticCustomError("not_here", "Not supported: " + cls.refused[name]), loc=(name,), input=None)
            for name in given
            if name in cls.refused and given[name]
        ]
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return {name: value for name, value in given.items() if name not in cls.refused}


class AttachmentParams(BaseModel):
    """The `id` of an upload, or the file itself: `content` as base64 (at most 5,000,000 bytes decoded) with its `fileName`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    id: Id | None = None
    type: str | None = Field(None, max_length=64)  # OpenClaw's clients send "image" or "file"; it is detected from the content
    mime_type: str | None = Field(None, max_length=100)
    file_name: str | None = Field(None, max_length=1000)
    content: str | None = Field(None, min_length=1, max_length=7_000_000)

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.id is None) == (self.content is None):
            raise ValueError("set either the id of an upload or the content of a file")
        return self

    def file(self) -> str | InlineFile:
        return self.id or InlineFile(self.file_name or "file", self.mime_type or "", self.content or "")
