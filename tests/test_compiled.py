"""Compiled programs are kept where nobody else can write, and are never a reason to fail."""

import grp
import os
import pathlib
import pwd

import compiled
import jax
import jax.numpy as jnp
import pytest
from jax._src.interpreters import mlir


@pytest.fixture
def programs():
    """The folder of this process, into which it now writes whatever it compiles."""
    if not jax.config.jax_compilation_cache_dir:
        pytest.skip(f"{compiled.VARIABLE} is empty")
    threshold = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    yield pathlib.Path(jax.config.jax_compilation_cache_dir)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", threshold)


def _written(folder, name):
    return list(folder.glob(f"jit_{name}-*-cache"))


def test_a_folder_is_made_that_only_its_owner_enters(tmp_path):
    folder = tmp_path / "above" / "programs"
    compiled.make_own(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    compiled.make_own(folder)


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o720])
def test_a_folder_into_which_others_can_write_is_refused(tmp_path, mode):
    folder = tmp_path / "programs"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(compiled.RefusedFolderError, match="writable by its owner alone"):
        compiled.make_own(folder)
    assert folder.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize(
    ("mode", "is_private", "is_refused"),
    [
        (0o770, False, True),
        (0o770, True, False),
        (0o702, True, True),
        # Where a folder is sticky, only an entry's owner renames it.
        (0o1777, False, False),
    ],
)
def test_a_folder_that_others_could_rename_is_refused(
    tmp_path, monkeypatch, mode, is_private, is_refused
):
    folder = tmp_path / "above" / "programs"
    folder.mkdir(mode=0o700, parents=True)
    folder.parent.chmod(mode)
    monkeypatch.setattr(compiled, "_is_of_one_user", lambda group: is_private)
    if not is_refused:
        compiled.make_own(folder)
        return
    with pytest.raises(compiled.RefusedFolderError, match="no other user to be able to move"):
        compiled.make_own(folder)


def _account(name, group):
    return pwd.struct_passwd((name, "x", os.getuid(), group, "", "/", "/bin/sh"))


@pytest.mark.parametrize(
    ("name", "members", "accounts", "is_private"),
    [
        ("ann", [], ["ann"], True),
        ("ann", ["ann"], ["ann"], True),
        ("ann", ["bob"], ["ann"], False),
        ("ann", [], ["ann", "bob"], False),
        # A group in which the user is not, and one of another name.
        ("ann", [], [], False),
        ("staff", [], ["ann"], False),
    ],
)
def test_a_private_group_has_its_users_name_and_no_other_member(
    monkeypatch, name, members, accounts, is_private
):
    group = grp.struct_group((name, "x", 7, members))
    monkeypatch.setattr(pwd, "getpwuid", lambda user: _account("ann", 7))
    monkeypatch.setattr(pwd, "getpwall", lambda: [_account(one, 7) for one in accounts])
    monkeypatch.setattr(grp, "getgrgid", lambda number: group)
    assert compiled._is_of_one_user(7) == is_private


def test_a_group_that_is_not_known_is_not_private(monkeypatch):
    def unknown(number):
        raise KeyError(number)

    monkeypatch.setattr(grp, "getgrgid", unknown)
    assert not compiled._is_of_one_user(7)


def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with pytest.raises(compiled.RefusedFolderError, match="of this user's"):
        compiled.make_own(tmp_path)


def test_a_link_or_a_file_is_no_folder_of_its_own(tmp_path):
    (tmp_path / "folder").mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "folder")
    with pytest.raises(compiled.RefusedFolderError, match="of this user's"):
        compiled.make_own(link)
    file = tmp_path / "file"
    file.touch()
    for place in (file, file / "below"):
        with pytest.raises(compiled.RefusedFolderError, match=compiled.VARIABLE):
            compiled.make_own(place)


def test_a_link_on_the_way_is_followed_once(tmp_path):
    (tmp_path / "folder").mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "folder")
    assert compiled.make_own(link / "programs") == tmp_path.resolve() / "folder" / "programs"


def test_no_programs_are_kept_where_the_variable_is_empty(tmp_path, monkeypatch):
    monkeypatch.setenv(compiled.VARIABLE, "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled.keep_programs()
    assert os.environ[compiled.VARIABLE] == ""
    assert not list(tmp_path.iterdir())


def test_programs_that_were_written_long_ago_are_forgotten(tmp_path):
    old, new = tmp_path / "jit_old-1-cache", tmp_path / "jit_new-2-cache"
    for program, written in ((old, 99), (new, 101)):
        program.touch()
        os.utime(program, (written, written))
    compiled.forget(tmp_path, before=100)
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("is_named", [False, True])
def test_old_programs_are_forgotten_only_in_the_folder_that_no_user_named(
    tmp_path, monkeypatch, is_named
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("PYTHONWARNINGS", *compiled._WORTH):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.delenv(compiled.VARIABLE)
    folder = tmp_path / "jaxdp-tests" / "programs"
    if is_named:
        folder = tmp_path / "named"
        monkeypatch.setenv(compiled.VARIABLE, str(folder))
    folder.mkdir(mode=0o700, parents=True)
    old = folder / "jit_old-1-cache"
    old.touch()
    os.utime(old, (0, 0))
    compiled.keep_programs()
    assert os.environ[compiled.VARIABLE] == str(folder)
    assert old.exists() == is_named


def test_what_is_compiled_is_kept_in_the_folder_that_was_checked(programs):
    assert programs == pathlib.Path(os.environ[compiled.VARIABLE])
    assert programs.stat().st_uid == os.getuid()

    def kept(x):
        return jnp.sin(x) * 3

    # Another run may use the same folder.
    kept.__name__ = f"kept_{os.getpid()}"
    jax.jit(kept)(1.0)
    (program,) = _written(programs, kept.__name__)
    program.unlink()


def test_a_program_that_is_not_whole_is_compiled_again(programs):
    def make():
        # A function of its own, so that JAX asks the folder again.
        def half_written(x):
            return jnp.cos(x) * 3

        half_written.__name__ = name
        return jax.jit(half_written)

    # Another run may use the same folder.
    name = f"half_written_{os.getpid()}"
    expected = make()(1.0)
    (program,) = _written(programs, name)
    whole = program.read_bytes()
    message = compiled.HALF_WRITTEN.removeprefix("ignore:")
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        program.write_bytes(whole[:length])
        with pytest.warns(UserWarning, match=message):
            assert make()(1.0) == expected
        # Now as in every other test, where a warning is an error.
        assert make()(1.0) == expected
    program.unlink()


def test_flags_are_named_only_where_asked_for_and_known(monkeypatch):
    one_module = "--xla_cpu_parallel_codegen_split_count=1"
    monkeypatch.setattr(compiled, "_is_known", lambda flag: True)
    monkeypatch.setenv("XLA_FLAGS", "")
    for no in ("", "0", "false"):
        monkeypatch.setenv(compiled.CHEAP_VARIABLE, no)
        compiled.compile_sooner()
        assert os.environ["XLA_FLAGS"].split() == [one_module]
    monkeypatch.setenv(compiled.CHEAP_VARIABLE, "1")
    compiled.compile_sooner()
    assert os.environ["XLA_FLAGS"].split() == [one_module, "--xla_cpu_use_fusion_emitters=false"]
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_parallel_codegen_split_count=7")
    monkeypatch.setattr(compiled, "_is_known", lambda flag: "split" in flag)
    compiled.compile_sooner()
    assert os.environ["XLA_FLAGS"].split() == ["--xla_cpu_parallel_codegen_split_count=7"]
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(compiled, "_is_known", lambda flag: False)
    compiled.compile_sooner()
    assert not os.environ["XLA_FLAGS"].strip()


def test_the_compilers_library_says_what_it_knows():
    # Of all versions.
    assert compiled._is_known("xla_backend_optimization_level")


def test_a_program_that_is_written_while_another_is_has_a_context_of_its_own():
    # One of two in a row may be the first of the next context.
    one, other, third = _contexts(3)
    assert one is other or other is third
    with third:
        assert mlir.make_ir_context() is not third


def test_a_context_does_not_serve_for_ever():
    assert len({id(context) for context in _contexts(2 * compiled.A_CONTEXT)}) >= 2


def _contexts(count):
    return [mlir.make_ir_context() for _ in range(count)]


# Quick and slow tests are not compiled alike by every command.
in_every_run = pytest.mark.parametrize(
    "kind", ["quick", pytest.param("slow", marks=pytest.mark.slow)]
)


@pytest.mark.long_runs
@in_every_run
def test_what_runs_longer_than_it_compiles_is_optimised(kind):
    assert not jax.config.read("jax_disable_most_optimizations")


@in_every_run
def test_everything_else_is_compiled_as_the_run_asks_for(kind):
    asked = os.environ.get(compiled.CHEAP_VARIABLE, "0").lower()
    assert jax.config.read("jax_disable_most_optimizations") == (asked in compiled._JAXS_YES)
