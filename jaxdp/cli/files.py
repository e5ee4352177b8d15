"""The files that the command line reads and writes, checked before any work is done."""

import io
import pathlib
import tempfile
from collections.abc import Sequence

from jaxdp.core.files.whole_files import write_whole


def check_files(read: Sequence[pathlib.Path], out: pathlib.Path | None) -> None:
    """Raise ValueError unless the files can be read and `out` is another, in a known folder."""
    for path in read:
        if not path.is_file():
            raise ValueError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    if out is None:
        return
    if (out.exists() and not out.is_file()) or not out.parent.is_dir():
        raise ValueError(f"expected --out to be a file in a folder that exists, got {out}")
    # Links of either kind are followed: it is the content that would be lost.
    taken = next((path for path in read if out.exists() and out.samefile(path)), None)
    if taken is not None:
        raise ValueError(f"expected --out to be another file than {taken}, got {out}")


def check_writable(folder: pathlib.Path) -> None:
    """Raise ValueError unless a file can be made in the folder."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"expected --out to be in a folder that can be written to, got {folder}: "
            f"{error.strerror}"
        ) from None


def write_text(path: pathlib.Path, text: str) -> None:
    """A line of text as a file, whole or not at all."""
    write_whole(path, (text + "\n").encode())


def write_picture(path: pathlib.Path, figure) -> None:
    """A figure as a PNG, whole or not at all."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=160, format="png")
    write_whole(path, drawn.getvalue())
