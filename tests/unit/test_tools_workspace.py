"""No path leads out of the workspace: not `..`, not a link, not even a link created at the wrong moment."""

import os
import shutil
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tools_app.builtin.files import tree, workspace
from tools_app.builtin.files.workspace import Workspace
from tools_app.core.definition import ToolFailed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "sub").mkdir(parents=True)
    (tmp_path / "ws" / "a.txt").write_text("inside")
    (tmp_path / "ws" / "sub" / "b.txt").write_text("below")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    return tmp_path / "ws"


@pytest.fixture
def outside(root: Path) -> Path:
    return root.parent / "outside"


def untouched(outside: Path) -> bool:
    return [path.name for path in outside.iterdir()] == ["secret.txt"] and (outside / "secret.txt").read_text() == "secret"


def refuses(root: Path, path: str, words: str) -> None:
    """Neither reading nor writing works."""
    for attempt in (lambda: Workspace(root).read(path), lambda: Workspace(root).write(path, b"changed")):
        with pytest.raises(ToolFailed, match=words):
            attempt()
    assert untouched(root.parent / "outside")


@pytest.mark.parametrize(
    "path", ["sub/b.txt", "./sub//b.txt", "sub/../sub/b.txt", "nowhere/../sub/b.txt", "{root}/sub/b.txt", "{root}/./sub/b.txt"]
)
def test_paths_inside_workspace_are_resolved(root, path):
    assert Workspace(root).read(path.format(root=root))[0] == b"below"


def test_workspace_root_may_be_a_link(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    assert Workspace(tmp_path / "link").read("a.txt")[0] == b"inside"
    assert Workspace(tmp_path / "link").read(f"{root}/a.txt")[0] == b"inside"


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "..",
        "{outside}/secret.txt",
        "/etc/passwd",
        "/",
        "{root}/../outside/secret.txt",
        "{root}2/secret.txt",
        "//etc/passwd",
    ],
)
def test_paths_outside_workspace_are_rejected(root, outside, path):
    refuses(root, path.format(root=root, outside=outside), "outside the workspace")


@pytest.mark.parametrize("path", ["", ".", "sub/..", "{root}"])
def test_workspace_root_is_not_a_file(root, path):
    refuses(root, path.format(root=root), "is not a file")


@pytest.mark.parametrize("path", ["a\0.txt", "\0", "a/" * 3000 + "b", "n" * 256, "é" * 128, "sub/" + "n" * 300])
def test_invalid_file_names_are_rejected(root, path):
    refuses(root, path, "NUL|bytes")


def test_lone_surrogate_in_path_is_rejected(root):
    refuses(root, "a\ud800.txt", "characters")


def test_longest_file_name_is_accepted(root):
    Workspace(root).write("n" * 255, b"long")
    assert Workspace(root).read("n" * 255)[0] == b"long"


def test_link_to_file_is_not_followed(root, outside):
    (root / "link").symlink_to(outside / "secret.txt")
    refuses(root, "link", "symbolic link")
    assert (root / "link").is_symlink()


def test_link_to_directory_is_not_followed(root, outside):
    (root / "link").symlink_to(outside)
    refuses(root, "link/secret.txt", "symbolic link")
    refuses(root, "link/new/file.txt", "symbolic link")
    with pytest.raises(ToolFailed, match="symbolic link"), Workspace(root).directory("link"):
        pass


def test_link_inside_workspace_is_not_followed(root):
    (root / "link").symlink_to("sub")
    refuses(root, "link/b.txt", "symbolic link")


def test_dangling_link_is_not_written_through(root, outside):
    (root / "link").symlink_to(outside / "new.txt")
    (root / "dir").symlink_to(outside / "new")
    refuses(root, "link", "symbolic link")
    refuses(root, "dir/file.txt", "symbolic link")


def test_link_that_replaces_file_after_check_is_not_read(root, outside, monkeypatch):
    look = tree.check_is_regular

    def look_then_swap(found, name):
        look(found, name)
        (root / "a.txt").unlink()
        (root / "a.txt").symlink_to(outside / "secret.txt")

    monkeypatch.setattr(tree, "check_is_regular", look_then_swap)
    with pytest.raises(ToolFailed, match="symbolic link"):
        Workspace(root).read("a.txt")


def test_fifo_that_replaces_file_after_check_does_not_block(root, monkeypatch):
    look, looks = tree.check_is_regular, []

    def look_then_swap(found, name):
        look(found, name)
        if not looks:
            (root / "a.txt").unlink()
            os.mkfifo(root / "a.txt")
        looks.append(name)

    monkeypatch.setattr(tree, "check_is_regular", look_then_swap)
    with pytest.raises(ToolFailed, match="FIFO"):
        Workspace(root).read("a.txt")


def test_link_created_before_write_is_replaced_not_followed(root, outside, monkeypatch):
    write_new = workspace._write_new

    def write_then_swap(parent, name, content, *, like):
        write_new(parent, name, content, like=like)
        (root / "a.txt").unlink()
        (root / "a.txt").symlink_to(outside / "secret.txt")

    monkeypatch.setattr(workspace, "_write_new", write_then_swap)
    Workspace(root).write("a.txt", b"changed")
    assert untouched(outside)
    assert not (root / "a.txt").is_symlink()


def test_directory_toggling_to_link_never_allows_write_outside(root, outside):
    """Another thread keeps replacing `sub` with a link to the outside while we write through `sub`."""
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            shutil.rmtree(root / "sub", ignore_errors=True)  # ignore links
            with suppress(OSError):
                os.symlink(outside, root / "sub")
            with suppress(OSError):
                os.unlink(root / "sub")

    swapper = threading.Thread(target=swap)
    swapper.start()
    refused = 0
    try:
        for _ in range(2000):
            try:
                Workspace(root).write("sub/secret.txt", b"changed")
            except ToolFailed:
                refused += 1
    finally:
        stop.set()
        swapper.join()
    assert refused  # otherwise the race never happened
    assert untouched(outside)


def test_special_files_are_rejected_without_opening(root):
    os.mkfifo(root / "fifo")
    refuses(root, "fifo", "FIFO")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(root)  # a socket's address has at most 108 bytes
        try:
            server.bind("sock")
        finally:
            os.chdir(here)
        refuses(root, "sock", "socket")


def test_device_file_is_rejected(root, monkeypatch):
    lstat = os.lstat
    monkeypatch.setattr(os, "lstat", lambda name, **where: lstat("/dev/null") if name == "a.txt" else lstat(name, **where))
    refuses(root, "a.txt", "device")


def test_unreadable_file_is_reported(root, monkeypatch):
    opened = os.open

    def denied(path, *args, **kwargs):
        if path == "a.txt":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(ToolFailed, match=r"`a\.txt` can't be accessed: permission denied"):
        Workspace(root).read("a.txt")


@pytest.mark.parametrize(
    ("path", "words"), [("sub", "is a directory; list its files with `glob`"), ("a.txt/b", "part of the path is a file")]
)
def test_directory_and_file_mixup_is_reported(root, path, words):
    refuses(root, path, words)


def test_missing_file_is_reported(root):
    with pytest.raises(ToolFailed, match=r"`no/such\.txt` does not exist"):
        Workspace(root).read("no/such.txt")


def test_missing_workspace_is_reported(root):
    with pytest.raises(ToolFailed, match="workspace can't be opened"):
        Workspace(root / "gone").write("a.txt", b"x")


def test_write_creates_directories_and_returns_whether_file_is_new(root):
    assert Workspace(root).write("x/y/z.txt", b"1") is True
    assert Workspace(root).write("x/y/z.txt", b"2") is False
    assert (root / "x/y/z.txt").read_bytes() == b"2"


def test_replaced_file_keeps_mode_and_hard_links_are_unchanged(root):
    (root / "a.txt").chmod(0o750)
    os.link(root / "a.txt", root / "other")
    Workspace(root).write("a.txt", b"new")
    assert (root / "a.txt").stat().st_mode & 0o777 == 0o750
    assert (root / "other").read_text() == "inside"


def test_failed_write_keeps_old_file_and_leaves_no_temporary_file(root, monkeypatch):
    def no_space(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(ToolFailed, match="no space left"):
        Workspace(root).write("a.txt", b"new")
    assert (root / "a.txt").read_text() == "inside"
    assert sorted(os.listdir(root)) == ["a.txt", "sub"]


def test_changed_file_is_not_overwritten(root):
    _, seen = Workspace(root).read("a.txt")
    (root / "a.txt").write_text("by somebody else")
    with pytest.raises(ToolFailed, match="has changed since"):
        Workspace(root).write("a.txt", b"mine", unchanged_since=seen)
    assert (root / "a.txt").read_text() == "by somebody else"
    assert sorted(os.listdir(root)) == ["a.txt", "sub"]


def deletes(root: Path, path: str) -> None:
    Workspace(root).delete(path, unchanged_since=(root / path).lstat())


def moves(root: Path, path: str, to: str) -> None:
    Workspace(root).move(path, to, unchanged_since=(root / path).lstat())


def test_files_are_deleted_and_moved(root):
    deletes(root, "sub/b.txt")
    moves(root, "a.txt", "new/place/a.txt")
    assert (root / "new/place/a.txt").read_text() == "inside"
    assert sorted(os.listdir(root)) == ["new", "sub"]


@pytest.mark.parametrize("taken", ["sub/b.txt", "sub", "link"])
def test_move_does_not_replace_existing_file(root, outside, taken):
    (root / "link").symlink_to(outside / "not-yet")
    with pytest.raises(ToolFailed, match=f"`{taken}` already exists"):
        moves(root, "a.txt", taken)
    with pytest.raises(ToolFailed):
        Workspace(root).write(taken, b"x", must_be_new=True)
    assert (root / "a.txt").read_text() == "inside"
    assert (root / "sub/b.txt").read_text() == "below"
    assert untouched(outside)


@pytest.mark.parametrize("path", ["link", "directory/secret.txt", "sub", "../outside/secret.txt"])
def test_links_directories_and_outside_paths_cannot_be_deleted_or_moved(root, outside, path):
    (root / "link").symlink_to(outside / "secret.txt")
    (root / "directory").symlink_to(outside)
    for attempt in (lambda: deletes(root, path), lambda: moves(root, path, "x"), lambda: moves(root, "a.txt", path)):
        with pytest.raises(ToolFailed):
            attempt()
    with pytest.raises(ToolFailed):
        moves(root, "a.txt", "directory/new.txt")
    assert untouched(outside)
    assert (root / "a.txt").read_text() == "inside"
    assert (root / "link").is_symlink()


@pytest.mark.parametrize("change", ["delete", "move"])
def test_changed_file_is_neither_deleted_nor_moved(root, change):
    seen = (root / "a.txt").stat()
    (root / "a.txt").write_text("by somebody else")
    with pytest.raises(ToolFailed, match="has changed since"):
        if change == "delete":
            Workspace(root).delete("a.txt", unchanged_since=seen)
        else:
            Workspace(root).move("a.txt", "b.txt", unchanged_since=seen)
    assert sorted(os.listdir(root)) == ["a.txt", "sub"]


def test_link_created_before_delete_is_removed_not_followed(root, outside, monkeypatch):
    unlink = os.unlink

    def swapped(name, **where):
        unlink(root / "a.txt")
        (root / "a.txt").symlink_to(outside / "secret.txt")
        unlink(name, **where)

    monkeypatch.setattr(os, "unlink", swapped)
    deletes(root, "a.txt")
    assert not (root / "a.txt").is_symlink()
    assert untouched(outside)


def test_link_created_before_move_is_moved_not_followed(root, outside, monkeypatch):
    link = os.link

    def swapped(*args, **where):
        (root / "a.txt").unlink()
        (root / "a.txt").symlink_to(outside / "secret.txt")
        link(*args, **where)

    monkeypatch.setattr(os, "link", swapped)
    moves(root, "a.txt", "b.txt")
    assert (root / "b.txt").is_symlink()
    with pytest.raises(ToolFailed, match="symbolic link"):
        Workspace(root).read("b.txt")
    assert untouched(outside)


@pytest.mark.parametrize("change", ["delete", "move away", "move there"])
def test_directory_replaced_by_link_at_last_moment_is_not_followed(root, outside, monkeypatch, change):
    """The link appears between the check of the file and the change; the names are the same on both sides."""
    (root / "sub" / "secret.txt").write_text("ours")
    call = "unlink" if change == "delete" else "link"
    really = getattr(os, call)

    def swapped(*args, **where):
        if not (root / "kept").exists():
            (root / "sub").rename(root / "kept")
            (root / "sub").symlink_to(outside)
        really(*args, **where)

    monkeypatch.setattr(os, call, swapped)
    match change:
        case "delete":
            deletes(root, "sub/secret.txt")
        case "move away":
            moves(root, "sub/secret.txt", "here.txt")
            assert (root / "here.txt").read_text() == "ours"
        case "move there":
            moves(root, "a.txt", "sub/there.txt")
            assert (root / "kept" / "there.txt").read_text() == "inside"
    assert untouched(outside)
    assert (root / "kept" / "secret.txt").exists() == (change == "move there")


def test_files_over_size_limit_are_rejected(root, monkeypatch):
    monkeypatch.setattr(workspace, "MAX_FILE_BYTES", 5)
    refuses(root, "a.txt", "bytes")
    (root / "a.txt").write_text("12345")
    assert Workspace(root).read("a.txt")[0] == b"12345"


def test_file_descriptors_are_closed(root, outside):
    (root / "link").symlink_to(outside)
    before = os.listdir("/proc/self/fd")
    for path in ("a.txt", "sub/b.txt", "link/x", "no/such", "sub", "../x"):
        for attempt in (lambda path=path: Workspace(root).read(path), lambda path=path: Workspace(root).write(path, b"x")):
            with suppress(ToolFailed):
                attempt()
    assert len(os.listdir("/proc/self/fd")) == len(before)
