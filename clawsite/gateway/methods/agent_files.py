"""Read and write the well-known files in an agent's workspace.

Every user has a separate workspace with an agent. A workspace that an operator set up for all its users can only be read and
written here with operator.admin: others only access it through the agent, and so through the tool policy.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NotRequired, get_args

from pydantic import Field
from typing_extensions import TypedDict

from agents.context.workspace import ensure_workspace, workspace_path
from agents.selectors import find_agent
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.params import Id, Params
from clawsite.gateway.protocol.scopes import Scope, has_scope
from clawsite.gateway.server.registry import Call, method
from clawsite.infra import db
from clawsite.infra.errors import Forbidden, InvalidRequest
from tools_app.builtin.files.workspace import Workspace
from tools_app.core.definition import ToolFailed

FileName = Literal[
    "AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md", "MEMORY.md", "memory.md"
]
MAX_FILE_LENGTH = 500_000  # characters; a response is limited to 768 KiB


class FileEntry(TypedDict):
    name: str
    path: str
    missing: bool
    size: NotRequired[int]
    updatedAtMs: NotRequired[int]
    content: NotRequired[str]


class ListParams(Params):
    agent_id: Id


class ListAnswer(TypedDict):
    """`workspace` is a description, not a path on the host: your own workspace with that agent, or the one its users share."""

    agentId: str
    workspace: str
    files: list[FileEntry]


@method("agents.files.list", scope=Scope.READ)
async def list_(call: Call, params: ListParams) -> ListAnswer:
    """List the nine files and which of them exist. The agent's memory tools search MEMORY.md; it reads the others like any file."""
    location = await db.read(_find_directory, call, params.agent_id)
    files = await asyncio.to_thread(_list_files, location.directory)
    return ListAnswer(agentId=location.agent, workspace=location.description, files=files)


class GetParams(ListParams):
    name: FileName


class GetAnswer(TypedDict):
    agentId: str
    workspace: str
    file: FileEntry


@method("agents.files.get", scope=Scope.READ)
async def get(call: Call, params: GetParams) -> GetAnswer:
    """Return one of the files with its content."""
    location = await db.read(_find_directory, call, params.agent_id)
    return GetAnswer(
        agentId=location.agent,
        workspace=location.description,
        file=await asyncio.to_thread(_read_file, location.directory, params.name),
    )


class SetParams(GetParams):
    content: str = Field(max_length=MAX_FILE_LENGTH)


class SetAnswer(GetAnswer):
    ok: Literal[True]


@method("agents.files.set", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED)
async def set_(call: Call, params: SetParams) -> SetAnswer:
    """Replace the content of one of the files."""
    location = await db.read(_find_directory, call, params.agent_id, make=True)
    file = await asyncio.to_thread(_write_file, location.directory, params.name, params.content)
    return SetAnswer(ok=True, agentId=location.agent, workspace=location.description, file=file)


@dataclass(frozen=True, slots=True)
class FilesDirectory:
    agent: str
    directory: Path
    shared: bool

    @property
    def description(self) -> str:
        return f"{'shared' if self.shared else 'own'} workspace of {self.agent}"


def _find_directory(call: Call, slug: str, *, make: bool = False) -> FilesDirectory:
    agent = find_agent(slug)
    if agent.workspace and not has_scope(call.authority.scopes, Scope.ADMIN):
        raise Forbidden(f"the workspace of {slug} is shared by all its users; reading and writing it here needs operator.admin")
    return FilesDirectory(agent.slug, (ensure_workspace if make else workspace_path)(agent, call.user.pk), bool(agent.workspace))


def _list_files(directory: Path) -> list[FileEntry]:
    entries = []
    for name in get_args(FileName):
        try:
            entries.append(_to_entry(name, _stat(directory, name)))
        except InvalidRequest:  # not a regular file; agents.files.get reports the details
            entries.append(_to_entry(name, None))
    return entries


def _stat(directory: Path, name: str) -> os.stat_result | None:
    if not directory.is_dir():
        return None
    try:
        return Workspace(directory).stat(name)
    except ToolFailed as failure:  # a link, a directory, or not readable
        raise InvalidRequest(str(failure)) from failure


def _to_entry(name: str, stat: os.stat_result | None) -> FileEntry:
    entry = FileEntry(name=name, path=name, missing=stat is None)
    if stat is not None:
        entry["size"], entry["updatedAtMs"] = stat.st_size, int(stat.st_mtime * 1000)
    return entry


def _read_file(directory: Path, name: str) -> FileEntry:
    if _stat(directory, name) is None:
        return _to_entry(name, None)
    try:
        content, stat = Workspace(directory).read(name)
    except ToolFailed as failure:
        raise InvalidRequest(str(failure)) from failure
    text = content.decode(errors="replace")
    if len(text) > MAX_FILE_LENGTH:
        raise InvalidRequest(f"{name} has {len(text)} characters, more than the limit of {MAX_FILE_LENGTH}")
    return {**_to_entry(name, stat), "content": text}


def _write_file(directory: Path, name: str, content: str) -> FileEntry:
    try:
        Workspace(directory).write(name, content.encode())
    except (ToolFailed, UnicodeEncodeError) as failure:
        raise InvalidRequest(str(failure)) from failure
    return _to_entry(name, _stat(directory, name))
