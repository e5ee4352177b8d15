"""Files are written whole or not at all, and what is no file is not waited for."""

import concurrent.futures
import errno
import multiprocessing
import os
import resource
import signal
import socket
import time

import pytest

from jaxdp.core.files import whole_files
from jaxdp.core.files.whole_files import (
    NotAFileError,
    claimed,
    read_file,
    remove_unfinished,
    whole_file,
    write_whole,
)


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_by_a_whole_one(tmp_path):
    path = tmp_path / "file"
    for content in (b"old", b"new"):
        write_whole(path, content)
        assert read_file(path) == content
    assert _names(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_error_or_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def stopped():
        with whole_file(path) as partial:
            partial.write_bytes(b"half")
            raise error

    with pytest.raises(error):
        stopped()
    assert (path.read_bytes(), _names(tmp_path)) == (b"old", ["file"])


def _write_much(path):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        write_whole(path, bytes(5000))
    except OSError as error:
        os._exit(error.errno)
    os._exit(0)


def test_a_disk_that_takes_no_more_leaves_no_half_a_file(tmp_path):
    process = multiprocessing.get_context("forkserver").Process(
        target=_write_much, args=(tmp_path / "file",)
    )
    process.start()
    process.join(60)
    assert process.exitcode == errno.EFBIG
    assert _names(tmp_path) == []


def _no_links(*names):
    raise OSError(errno.EPERM, "Operation not permitted")


def test_a_file_that_is_not_to_be_replaced_stays(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"first", replace=False)
    for link in (os.link, _no_links):
        monkeypatch.setattr(os, "link", link)
        with pytest.raises(FileExistsError):
            write_whole(path, b"second", replace=False)
        write_whole(tmp_path / link.__name__, b"other", replace=False)
    assert path.read_bytes() == b"first"
    assert _names(tmp_path) == ["_no_links", "file", "link"]


def _killed_while_renaming(path):
    os.link, os.replace = _no_links, lambda *names: os.kill(os.getpid(), signal.SIGKILL)
    write_whole(path, b"content", replace=False)


def test_a_kill_without_hard_links_leaves_no_empty_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_killed_while_renaming, args=(path,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert not path.exists()
    assert all(name.endswith(".partial") for name in _names(tmp_path))
    # What was left is named, and no write takes its place while it may be another's.
    monkeypatch.setattr(os, "link", _no_links)
    monkeypatch.setattr(whole_files, "_PATIENCE", 0.05)
    with pytest.raises(OSError, match=r"\.file\.partial exists: .* remove it"):
        write_whole(path, b"content", replace=False)
    (tmp_path / ".file.partial").unlink()
    write_whole(path, b"content", replace=False)
    assert path.read_bytes() == b"content"


def test_without_hard_links_one_of_several_gets_the_name(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", _no_links)

    def slow(source, target, replace=os.replace):
        # The others come meanwhile, and find the name neither taken nor empty.
        assert not os.path.lexists(target)
        time.sleep(0.05)
        replace(source, target)

    monkeypatch.setattr(os, "replace", slow)

    def written(number):
        try:
            write_whole(tmp_path / "file", b"%d" % number, replace=False)
        except FileExistsError:
            return (tmp_path / "file").read_bytes()
        return None

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(written, range(4)))
    winner = found.index(None)
    assert [content for content in found if content] == [b"%d" % winner] * 3
    assert _names(tmp_path) == ["file"]


def test_a_link_stays_a_link_to_what_is_written(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink()
    assert read_file(tmp_path / "file") == b"content"


def _others(folder):
    """What is no file, by name; opening the pipe in the usual way would wait for a writer."""
    os.mkfifo(folder / "a pipe")
    (folder / "a folder").mkdir()
    return {"a pipe": folder / "a pipe", "a folder": folder / "a folder", "a device": "/dev/zero"}


def test_what_is_no_file_is_neither_read_nor_written(tmp_path):
    for kind, path in _others(tmp_path).items():
        with pytest.raises(NotAFileError, match=f"expected a file, got {kind}"):
            read_file(path)
        with pytest.raises(OSError, match="to be a file, or not to exist"):
            write_whole(path, b"")
    assert (tmp_path / "a pipe").is_fifo()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(NotAFileError, match="No such device"):
            read_file(tmp_path / "s")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(NotAFileError, match="symbolic links"):
        read_file(tmp_path / "loop")


def test_a_file_longer_than_is_asked_for_is_not_read(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(NotAFileError, match="expected at most 100 bytes, got 1099511627776"):
        read_file(tmp_path / "sparse", largest=100)


def test_a_name_is_claimed_once_and_given_back(tmp_path):
    path = tmp_path / "file"
    with claimed(path):
        with pytest.raises(FileExistsError, match="another process is making"), claimed(path):
            pass
        assert _names(tmp_path) == ["file.claim"]
    with pytest.raises(KeyboardInterrupt), claimed(path):
        raise KeyboardInterrupt
    assert _names(tmp_path) == []
    path.symlink_to("nowhere")
    with pytest.raises(FileExistsError, match="file exists"), claimed(path):
        pass
    assert _names(tmp_path) == ["file"]


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(FileExistsError) as taken:
        write_whole(target, b"new", replace=False)
    absent = tmp_path / "folder" / "file"
    with pytest.raises(FileNotFoundError) as lost:
        write_whole(absent, b"new")
    assert (taken.value.filename, lost.value.filename) == (str(target), str(absent))
    assert "partial" not in str(taken.value) + str(lost.value)
    assert (taken.value.filename2, lost.value.filename2) == (None, None)


def test_what_was_begun_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "other").write_bytes(b"")
    with claimed(tmp_path / "file"), whole_file(tmp_path / "file") as partial:
        partial.write_bytes(b"half")
        remove_unfinished()
        assert [path.name for path in tmp_path.iterdir()] == ["other"]
        # As if nothing had happened, since the process ends here.
        partial.write_bytes(b"whole")
    remove_unfinished()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "other"]
