"""The program itself: where it is, and what it is asked to do."""

from __future__ import annotations

import csv
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ._files import Array, PathLike, write_atomically
from ._probe import Probe, on_host

Word = PathLike | float | np.number[Any]
"""What may be an argument of the program."""
VARIABLE = "SSMPROBE"
_CHECKOUT = Path(__file__).resolve().parents[2]
_AGAIN = "install the wheel again: pip install --force-reinstall WHEEL"
_CLOSED = (0, 130, -signal.SIGTERM)
"""Exit codes of a window that was closed, by its user or from here."""


class ProgramError(RuntimeError):
    """The program is not there, or failed; what it said is in the message."""


def program() -> Path:
    """The program: what `SSMPROBE` names, else the one installed with this package, else that on the PATH, else the one built
    in the checkout that this package lies in."""
    if named := os.environ.get(VARIABLE):
        if not Path(named).is_file():
            raise ProgramError(f"{VARIABLE} is {named}, expected the program's file")
        return Path(named)
    name = "ssmprobe.exe" if sys.platform == "win32" else "ssmprobe"
    on_path = shutil.which(name)
    built = Path(os.environ.get("CARGO_TARGET_DIR", _CHECKOUT / "target"), "release", name)
    places = [*(folder / name for folder in _installed("scripts")), *([Path(on_path)] if on_path else []), built]
    for place in places:
        if place.is_file():
            _check_installed(place)
            return place
    tried = ", ".join(map(str, places))
    raise ProgramError(f"the program ssmprobe is not at {tried} nor on the PATH; install the wheel, or name it in {VARIABLE}")


def demo() -> Path:
    """The folder of the bundled demo: backbones, probes, scenes."""
    folders = [*(folder / "share" / "ssmprobe" for folder in _installed("data")), _CHECKOUT / "assets"]
    if named := os.environ.get("SSMPROBE_ASSETS"):
        folders = [Path(named)]
    for folder in folders:
        _check_installed(folder / "demo")
        if (folder / "demo" / "demo.json").is_file():
            return folder / "demo"
    raise ProgramError(f"the bundled demo is not in {', '.join(map(str, folders))}; name its folder in SSMPROBE_ASSETS")


def _installed(kind: str) -> list[Path]:
    """Where pip installs `scripts` or `data`: with this Python, and for the user alone (`pip install --user`)."""
    return [Path(sysconfig.get_path(kind)), Path(sysconfig.get_path(kind, sysconfig.get_preferred_scheme("user")))]


def _check_installed(place: Path) -> None:
    """Refuses a file or folder of the installed wheel of which something is missing, or has another size than in the wheel."""
    try:
        installed = metadata.distribution("ssmprobe")
    except metadata.PackageNotFoundError:
        return
    wanted = Path(os.path.realpath(place))
    for name, _, size in csv.reader((installed.read_text("RECORD") or "").splitlines()):
        file = Path(os.path.realpath(str(installed.locate_file(name))))
        if size and (file == wanted or wanted in file.parents):
            found = file.stat().st_size if file.is_file() else None
            if found != int(size):
                what = "it is not there" if found is None else f"{found} bytes"
                raise ProgramError(f"{file}: {what}, expected {size} bytes; {_AGAIN}")


# How lines begin that go on with an error: its causes, or advice of the command line's parser.
_OF_ERROR = (" ", "\n", "Usage: ", "For more information")


def run(*arguments: Word) -> str:
    """Runs `ssmprobe ARGUMENTS...` to its end and returns what it printed; an error with what it said where it failed.
    Every word is an argument of its own: `run("train", "--epochs", 20, ...)`.

    Progress and warnings appear on `sys.stderr` meanwhile. On Ctrl-C the program finishes its step and saves,
    then `KeyboardInterrupt` is raised; a second Ctrl-C ends it at once. It also saves and ends where Python is killed.
    """
    return _run(arguments, loud=True)


def _run(arguments: Iterable[Word], loud: bool) -> str:
    words = [str(word) if isinstance(word, (int, float, np.number)) else os.fspath(word) for word in arguments]
    said: deque[str] = deque(maxlen=50)  # the last lines
    held: list[str] = []  # an error with its causes and advice, which the exception says if the program failed
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed,
        # Its input, into which nothing is written, ends with this process, however that ends.
        _start(["--ends-with-input", *words], stdin=subprocess.PIPE, stdout=printed, stderr=subprocess.PIPE) as process,
    ):

        def tell(*lines: str) -> None:
            if loud:
                with suppress(OSError, ValueError):  # nobody listens any more
                    print(*lines, sep="", end="", file=sys.stderr)

        def collect() -> None:
            assert process.stderr is not None
            with process.stderr as lines:
                for line in lines:
                    said.append(line)
                    if line.startswith("error: ") or (held and line.startswith(_OF_ERROR)):
                        held.append(line)
                    else:
                        tell(*held, line)
                        held.clear()

        reader = threading.Thread(target=collect, name="ssmprobe run", daemon=True)
        reader.start()
        _end(process, reader)
        if process.returncode:
            why = "".join(held or said).strip()
            raise ProgramError(f"{shlex.join([str(program()), *words])} ended with code {process.returncode}: {why}")
        tell(*held)  # a library's
        printed.seek(0)
        return printed.read()


def _start(words: list[str], **files: Any) -> subprocess.Popen[str]:
    """Starts the program in a session of its own, which neither Ctrl-C nor a notebook's interrupt reaches."""
    file = str(program())
    try:
        return subprocess.Popen([file, *words], start_new_session=True, encoding="utf-8", errors="replace", **files)
    except OSError as why:
        raise ProgramError(f"{file} cannot be started: {why.strerror}; {_AGAIN}, or name it in {VARIABLE}") from why


def _end(process: subprocess.Popen[str], reader: threading.Thread) -> None:
    """Waits for the end of a program and of what it says; every Ctrl-C, and what else ends the waiting, is passed on to it."""
    try:
        while reader.is_alive():
            reader.join(0.1)  # a wait without a limit is not ended by Ctrl-C where polars is imported, which handles it, too
        process.wait()
    except BaseException:
        if sys.platform != "win32":  # where Ctrl-C reaches it by itself, and this would kill it
            process.terminate()
        _end(process, reader)
        raise


def figures(kind: str, file: PathLike, figure: str, *flags: Word) -> dict[str, bytes]:
    """A figure of a trace, run or evaluation as SVG, called "f"; of the figure `all` those that it has, called "f-NAME"."""
    with tempfile.TemporaryDirectory(prefix="ssmprobe-") as folder:
        _run(["figures", f"--{kind}", file, "--figure", figure, "--out", Path(folder, "f.svg"), *flags], loud=False)
        return {file.stem: file.read_bytes() for file in Path(folder).iterdir()}


def svg(kind: str, file: PathLike, figure: str, *flags: Word) -> str:
    """One of the figures."""
    if figure == "all":
        raise ValueError("figure is 'all', expected the name of one: `ssmprobe figures --list`")
    return figures(kind, file, figure, *flags)["f"].decode()


@runtime_checkable
class HasArray(Protocol):
    """A PyTorch tensor, or anything else that makes an array."""

    def __array__(self) -> Array:
        """Its values."""


@runtime_checkable
class Picture(Protocol):
    """An image of Pillow, whatever its colours mean."""

    mode: str

    def convert(self, mode: str) -> Any:
        """The same in other colours."""


class Window:
    """A window of the program; what it was given in memory lies in a temporary folder until it is closed."""

    def __init__(self, words: list[str], folder: tempfile.TemporaryDirectory[str]) -> None:
        said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (read at its end)
        self.process: subprocess.Popen[str] = _start(words, stderr=said)
        """The program."""

        def clean() -> None:
            with said:
                if self.process.wait() not in _CLOSED:  # a notebook shows what Python says, not what the program does
                    said.seek(0)
                    print(said.read(), end="", file=sys.stderr)
            folder.cleanup()

        # It holds the folder, whoever keeps this window; and Python does not end before it where something lies in there.
        self._cleaning = threading.Thread(target=clean, name="ssmprobe window", daemon=not os.listdir(folder.name))
        self._cleaning.start()

    def wait(self, timeout: float | None = None) -> int:
        """Waits until the window is closed, at most `timeout` seconds, and returns the program's exit code."""
        code = self.process.wait(threading.TIMEOUT_MAX if timeout is None else timeout)  # with a limit for Ctrl-C, as in `_end`
        self._cleaning.join()
        return code

    def close(self) -> None:
        """Closes the window."""
        self.process.terminate()
        self.wait()


def open(
    *what: PathLike | Probe | HasArray | Picture,
    backbone: PathLike | None = None,
    data: PathLike | None = None,
    pane: str | None = None,
    device: str | None = None,
) -> Window:
    """Opens the window, and returns at once.

    `what` are images as arrays or tensors ([height, width, 3] or [height, width], uint8) or of Pillow, probes, and paths of
    whatever the window opens: probe files, images, folders, workspaces. Images and probes are written to a temporary folder
    that is gone when the window is closed; until then Python does not end. The program's next start shows what else was open in
    the window, or where that is nothing but backbones, what was open before it. `backbone` is a folder or an id of the Hub,
    `data` a labelled dataset, `pane` the pane to show first, `device` where to compute.
    """
    folder = tempfile.TemporaryDirectory(prefix="ssmprobe-")
    arguments: list[str] = []
    try:
        for number, thing in enumerate(what):
            if isinstance(thing, (HasArray, Picture)) and not isinstance(thing, str):  # as a word of NumPy is
                arguments.append(str(Path(folder.name, f"image-{number}.png")))
                if isinstance(thing, Picture) and thing.mode[0] not in "IF":  # of more bits all above 255 would be white
                    thing = thing.convert("RGB")
                write_png(arguments[-1], on_host(thing))
            elif isinstance(thing, Probe):
                arguments.append(str(Path(folder.name, f"{thing.head}-{number}.safetensors")))
                thing.save(arguments[-1])
            else:
                arguments.append(os.fspath(thing))
        flags = {"--backbone": backbone, "--data": data, "--pane": pane, "--device": device}
        if os.listdir(folder.name):  # which the program's next start is not to open again
            flags["--temporary"] = folder.name
        arguments += [word for flag, value in flags.items() if value is not None for word in (flag, os.fspath(value))]
        return Window(["open", *arguments], folder)
    except BaseException:
        folder.cleanup()
        raise


def write_png(path: PathLike, image: Array) -> None:
    """Writes an image of [height, width, 3] or [height, width], uint8, as PNG."""
    channels: Any = image.shape[2] if image.ndim == 3 else 1
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or channels not in (1, 3) or not image.size:
        raise ValueError(f"an image is {list(image.shape)} {image.dtype}, expected [height, width, 3] or [height, width] uint8")
    height, width = image.shape[:2]
    lines = np.ascontiguousarray(image).reshape(height, -1)
    raw = np.hstack([np.zeros((height, 1), "u1"), lines]).tobytes()  # each line with filter 0 before it

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    write_atomically(path, b"\x89PNG\r\n\x1a\n" + parts)
