"""Programs that JAX has compiled, kept in a folder from one run of the tests to the next.

Compilation is most of the time of a quick test. JAX finds a program by what it computes, by the
compiler and by the processor, so no other program is ever found in its place. It trusts what it
finds: who can write into the folder runs code as whoever runs the tests. The folder therefore
belongs to one user, and nobody else can write there.

JAX's own variable chooses another folder, or none where it is empty. What is read from the
environment here is what the processes that tests start read too.

`make test` asks for programs that are compiled in half the time. `make check` asks for those of
users where it runs the quick tests, and for the others where it runs the slow ones. Of either each
program is compiled by one thread.
"""

import importlib.util
import itertools
import mmap
import os
import pathlib
import stat
import time

VARIABLE = "JAX_COMPILATION_CACHE_DIR"
# Most programs are single operations: each is compiled in some hundredths of a second, is loaded in
# a few times less, and fills a few kilobytes.
_WORTH = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
# JAX writes in place, so a process can read what another has half written. JAX finds that it is not
# whole, says so, and compiles; a program that works is then no reason for a test to fail.
HALF_WRITTEN = "ignore:Error reading persistent compilation cache entry"
# Programs of code that has changed are never asked for again.
_FORGOTTEN_AFTER = 14 * 24 * 3600
# XLA cuts a program's functions into up to 32 modules, which as many threads compile. In one module
# they take 5 to 9 % less processor time, and compute the same: smoke versions of eight figures have
# the same numbers to the bit.
_ONE_MODULE = {"xla_cpu_parallel_codegen_split_count": "1"}
# By default XLA writes the code of fused loops through MLIR, most of the time of a small program's
# compilation. Its older generator is still there (wrong where the index of a dynamic slice has too
# few bits for the array's length).
CHEAP_VARIABLE = "JAX_DISABLE_MOST_OPTIMIZATIONS"
_JAXS_YES = ("1", "y", "yes", "t", "true", "on")
_CHEAP = {"xla_cpu_use_fusion_emitters": "false"}


class RefusedFolderError(Exception):
    """Somebody else could write what JAX would run."""


def keep_programs() -> None:
    """Let JAX, in this process and in those it starts, keep programs; call it before JAX's import.

    Old programs are removed from the folder that is taken where the user names none. A folder that
    the user names may hold programs of the user's own.

    Raises:
        RefusedFolderError: the folder is not its user's alone, or cannot be made.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    default = pathlib.Path(caches, "jaxdp-tests", "programs")
    chosen = os.environ.setdefault(VARIABLE, str(default))
    if not chosen:
        return
    if "://" in chosen:
        raise RefusedFolderError(f"expected {VARIABLE} to name a folder, got {chosen}")
    is_default = pathlib.Path(chosen).absolute() == default.absolute()
    folder = make_own(pathlib.Path(chosen).absolute())
    if is_default:
        forget(folder, before=time.time() - _FORGOTTEN_AFTER)
    warnings = [os.environ.get("PYTHONWARNINGS"), HALF_WRITTEN]
    if HALF_WRITTEN not in (warnings[0] or ""):
        os.environ["PYTHONWARNINGS"] = ",".join(filter(None, warnings))
    # A process that a test starts runs elsewhere.
    os.environ[VARIABLE] = str(folder)
    for name, value in _WORTH.items():
        os.environ.setdefault(name, value)


def compile_sooner() -> None:
    """Let XLA compile in less time; call it before JAX's import.

    XLA ends a process that names a flag which it does not know, so only those that its library
    contains are named. What the user's own flags say stands.
    """
    is_cheap = os.environ.get(CHEAP_VARIABLE, "0").lower() in _JAXS_YES
    chosen = _ONE_MODULE | (_CHEAP if is_cheap else {})
    flags = os.environ.get("XLA_FLAGS", "")
    wanted = [name for name in chosen if name not in flags and _is_known(name)]
    os.environ["XLA_FLAGS"] = " ".join([flags, *(f"--{name}={chosen[name]}" for name in wanted)])


# Programs that are written into one context: what they hold of constants stays in it.
A_CONTEXT = 200


def write_in_shared_contexts() -> None:
    """Let many programs be written in one MLIR context; call it after JAX's import.

    JAX makes a context for every program, six milliseconds that a single operation waits for and a
    megabyte that is kept as long as the program is. What is compiled does not depend on it. While
    one program is written, another that it needs gets a context of its own, or it would be written
    into the first. A JAX that makes its contexts elsewhere is left as it is.
    """
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    make = getattr(mlir, "make_ir_context", None)
    if make is None or not callable(make):
        return
    counted = itertools.count()
    shared: list = []

    def is_writing():
        # Where there is none, some jaxlibs say so and others raise.
        try:
            return ir.Context.current is not None
        except ValueError:
            return False

    def shared_context():
        if is_writing():
            return make()
        if next(counted) % A_CONTEXT == 0:
            shared[:] = [make()]
        return shared[0]

    mlir.make_ir_context = shared_context


def _is_known(flag: str) -> bool:
    """Does the compiler's library contain that name?"""
    package = importlib.util.find_spec("jaxlib")
    folders = package.submodule_search_locations if package else None
    for folder in folders or ():
        for library in itertools.chain(*map(pathlib.Path(folder).glob, ("*.so", "*.dylib"))):
            with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as it:
                if it.find(flag.encode()) >= 0:
                    return True
    return False


def make_own(folder: pathlib.Path) -> pathlib.Path:
    """The folder exists, is this user's, and by its mode nobody else can write into it.

    Access lists, which some file systems have beside a mode, are not looked at.

    Returns:
        Its path without links: one on the way may point elsewhere later.

    Raises:
        RefusedFolderError: it is not so, and nothing was changed.
    """
    advice = f"; {VARIABLE} can name another folder, or be empty for none"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder.parent.resolve() / folder.name
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise RefusedFolderError(
            f"expected a folder for compiled programs: {error}{advice}"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise RefusedFolderError(f"expected {folder} to be a folder of this user's{advice}")
    for above in folder.parents:
        # Who can rename a folder on the way can put another in its place.
        found_above = above.stat()
        is_open = found_above.st_mode & stat.S_IWOTH or (
            found_above.st_mode & stat.S_IWGRP and not _is_of_one_user(found_above.st_gid)
        )
        is_sticky = found_above.st_mode & stat.S_ISVTX
        if (is_open and not is_sticky) or found_above.st_uid not in (0, os.getuid()):
            raise RefusedFolderError(
                f"expected no other user to be able to move {folder}, got {above}, which others "
                f"own or may write{advice}"
            )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.filemode(found.st_mode)
        raise RefusedFolderError(
            f"expected {folder} writable by its owner alone, got {mode}{advice}"
        )
    return folder


def _is_of_one_user(group: int) -> bool:
    """Whether a group is this user's private one, as far as the machine lists its users.

    Many systems make one for every user, of the user's name, and let it write into the user's
    folders.
    """
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    members = {*found.gr_mem, *(one.pw_name for one in pwd.getpwall() if one.pw_gid == group)}
    return found.gr_name == user.pw_name and members == {user.pw_name}


def forget(folder: pathlib.Path, *, before: float) -> None:
    """Programs that were written before that time, in seconds since the epoch, are removed."""
    for program in folder.glob("*-cache"):
        # Another run may have removed it.
        try:
            if program.stat().st_mtime < before:
                program.unlink()
        except FileNotFoundError:
            continue
