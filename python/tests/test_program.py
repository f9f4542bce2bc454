"""The program from Python: where it is found, what the window is given, what a notebook shows."""

import base64
import gc
import os
import re
import signal
import stat
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ssmprobe
from ssmprobe._program import write_png

from .conftest import FIXTURES, FROZEN, ROOT

IN_ITS_FOLDER = '#!/bin/sh\ncd "${0%/*}"\n'
"""How a stand-in begins whose files lie beside it."""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that keeps what it was given, files and all, once there is no file `hold` beside it."""
    if sys.platform == "win32":
        pytest.skip("the stand-in is a shell script")
    script = tmp_path / "ssmprobe"
    hold = "while [ -e hold ]; do sleep 0.05; done"
    copy = 'for a; do [ ! -f "$a" ] || cp "$a" .; done'
    script.write_text(IN_ITS_FOLDER + f"{hold}\n{copy}\nprintf '%s\\n' \"$@\" > said\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("SSMPROBE", str(script))
    return script


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """An interrupt raises, also where tests run in the background of a shell, which ignores it there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_window_is_given_what_is_in_memory(stand_in: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    probe = ssmprobe.load_probe(FIXTURES / "heads" / "gap.safetensors")
    window = ssmprobe.open(image, probe, Path("b.png"), backbone="facebook/vit-mae-base", pane="evidence")
    assert window.wait(60) == 0
    said = (stand_in.parent / "said").read_text().splitlines()
    assert said[0] == "open"
    assert [Path(word).name for word in said[1:4]] == ["image-0.png", "gap-1.safetensors", "b.png"]
    assert said[4:-1] == ["--backbone", "facebook/vit-mae-base", "--pane", "evidence", "--temporary"]
    assert said[-1] == str(Path(said[1]).parent)
    kept = ssmprobe.load_probe(stand_in.parent / "gap-1.safetensors")
    assert (kept.head, kept.classes) == (probe.head, probe.classes)
    assert not Path(said[1]).parent.exists(), "what was in memory goes with the window"


class Picture:
    """As much of an image of Pillow as is needed: one with a palette, whose own numbers are no colours, or of 16 bits."""

    def __init__(self, pixels: Any, mode: str = "P") -> None:
        self.pixels, self.mode = pixels, mode

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        assert self.mode == "I;16"
        return self.pixels

    def convert(self, mode: str) -> Any:
        assert mode == "RGB"
        return self.pixels


class Tensor:
    """As much of a tensor of PyTorch as is needed."""

    def __init__(self, pixels: Any) -> None:
        self.pixels = pixels

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.pixels


def test_the_window_is_given_images_of_pillow_and_tensors(stand_in: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert ssmprobe.open(image, Picture(image), Tensor(image), np.str_("b.png")).wait(60) == 0
    assert (stand_in.parent / "said").read_text().splitlines()[4] == "b.png", "a path, whatever makes an array of it"
    (written,) = {(stand_in.parent / f"image-{number}.png").read_bytes() for number in range(3)}
    assert written.startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="an image is \\[5, 7\\] uint16, expected"):  # which Pillow would cut off at 255
        ssmprobe.open(Picture(np.zeros((5, 7), "u2"), "I;16"))


def test_a_window_that_nobody_keeps_is_given_what_is_in_memory(stand_in: Path) -> None:
    hold = stand_in.parent / "hold"
    hold.touch()
    ssmprobe.open(np.zeros((5, 7), "u1"))
    gc.collect()
    hold.unlink()
    (cleaning,) = (thread for thread in threading.enumerate() if thread.name == "ssmprobe window")
    assert not cleaning.daemon
    cleaning.join(60)
    assert (stand_in.parent / "image-0.png").is_file()


def test_a_window_that_cannot_open_says_why(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in.write_text("#!/bin/sh\necho 'error: no display' >&2\nexit 1\n")
    assert ssmprobe.open().wait(60) == 1
    assert capsys.readouterr().err == "error: no display\n"


def signal_once_begun(stand_in: Path, number: int) -> None:
    """Sends this process a signal once the stand-in has made a file `begun`, and `ssmprobe.run` waits for its end."""
    main = threading.main_thread()

    def waits() -> bool:
        frame = sys._current_frames()[main.ident or 0].f_back  # of a call by which it waits
        while frame and frame.f_code.co_name != "_end":
            frame = frame.f_back
        return frame is not None

    def send() -> None:
        while not (stand_in.with_name("begun").exists() and waits()):
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()


@pytest.mark.usefixtures("ctrl_c")
def test_the_program_saves_before_an_interrupt_is_raised(stand_in: Path) -> None:
    saved = stand_in.with_name("saved")
    stand_in.write_text(IN_ITS_FOLDER + "trap 'sleep 1; touch saved; exit 130' TERM\ntouch begun\nwhile :; do :; done\n")
    signal_once_begun(stand_in, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        ssmprobe.run("train")
    assert saved.exists()


@pytest.mark.usefixtures("ctrl_c")
def test_waiting_for_a_window_is_interrupted_at_once_where_polars_handles_ctrl_c_too(
    stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("polars")
    stand_in.write_text("#!/bin/sh\necho 'warning: of a driver' >&2\nexec sleep 60\n")
    window = ssmprobe.open()

    def wait() -> None:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        window.wait()

    with pytest.raises(KeyboardInterrupt):
        wait()
    assert window.process.poll() is None, "the window stays"
    window.close()
    assert capsys.readouterr().err == "", "it was closed, and did not fail"


def test_what_the_program_says_appears_at_once_and_its_results_are_returned(
    stand_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.write_text("#!/bin/sh\necho 'warning: other weights' >&2\necho found\n")
    assert ssmprobe.run("inspect") == "found\n"
    assert capsys.readouterr() == ("", "warning: other weights\n")
    stand_in.write_text("#!/bin/sh\nprintf 'error: of a library\nseed 0\nerror: of another\n' >&2\necho found\n")
    assert ssmprobe.run("train") == "found\n"
    assert capsys.readouterr().err == "error: of a library\nseed 0\nerror: of another\n"
    error = "error: no room\n  because: x\n\nUsage: y"
    stand_in.write_text(f"#!/bin/sh\nprintf 'seed 0\n{error}\n' >&2\nexit 1\n")
    with pytest.raises(ssmprobe.ProgramError, match=rf"train ended with code 1: {error}$"):
        ssmprobe.run("train")
    assert capsys.readouterr().err == "seed 0\n", "the exception says the rest"
    stand_in.write_text("#!/bin/sh\nprintf 'error: of a library\nkilled\n' >&2\nexit 1\n")
    with pytest.raises(ssmprobe.ProgramError, match=r"train --out 'a run' ended with code 1: error: of a library\nkilled$"):
        ssmprobe.run("train", "--out", "a run")


def test_whatever_ends_the_waiting_ends_the_program(stand_in: Path) -> None:
    saved = stand_in.with_name("saved")
    wait = "touch begun\nfor i in $(seq 60); do sleep 1; done\n"
    stand_in.write_text(IN_ITS_FOLDER + f"trap 'touch saved; exit 130' TERM\n{wait}")

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal_once_begun(stand_in, signal.SIGALRM)
    try:
        with pytest.raises(TimeoutError):
            ssmprobe.run("train")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert saved.exists()


def test_the_program_hears_that_python_was_killed(stand_in: Path) -> None:
    begun, heard = stand_in.with_name("begun"), stand_in.with_name("heard")
    stand_in.write_text(IN_ITS_FOLDER + '[ "$1" = --ends-with-input ] && touch begun\ncat\ntouch heard\n')
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    kernel = subprocess.Popen([sys.executable, "-c", "import ssmprobe; ssmprobe.run('train')"], env=paths)

    def wait_for(file: Path) -> None:
        end = time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < end, file
            time.sleep(0.05)

    wait_for(begun)
    assert not heard.exists()
    kernel.kill()
    kernel.wait()
    wait_for(heard)


def test_no_interrupt_of_the_notebook_reaches_the_program_itself(stand_in: Path) -> None:
    stand_in.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c 'import os; print(os.getsid(0) == os.getpid())'\n")
    assert ssmprobe.run("train") == "True\n"


def test_numbers_are_arguments_as_words_are(stand_in: Path) -> None:
    ssmprobe.run("train", "--epochs", 20, "--lr", 1e-3, "--seeds", np.int64(2))
    said = (stand_in.parent / "said").read_text().splitlines()
    assert said == ["--ends-with-input", "train", "--epochs", "20", "--lr", "0.001", "--seeds", "2"]


def test_the_program_reads_the_images_that_are_written(tmp_path: Path, program: Path) -> None:
    at, rng = FIXTURES / "inspect", np.random.default_rng(3)
    images = {
        "colour": rng.integers(0, 256, (32, 32, 3), dtype=np.uint8),
        "grey": rng.integers(0, 256, (32, 32), dtype=np.uint8),
    }
    for name, image in images.items():
        write_png(tmp_path / f"{name}.png", image)
    flags: list[str | Path] = ["--save-traces", "--device", "cpu", "--null-draws", "4", "--out", tmp_path / "out"]
    probe = at / "probes" / "gap.safetensors"
    ssmprobe.run("inspect", "--backbone", at / "backbone", "--probe", probe, "--image", tmp_path, *flags)
    for name, image in images.items():
        trace = ssmprobe.read_trace(tmp_path / "out" / name / "gap.trace.json")
        assert trace.picture is not None
        seen = image if image.ndim == 3 else np.repeat(image[:, :, None], 3, axis=2)
        # What the backbone saw went through its normalisation and back.
        assert np.abs(trace.picture.astype(int) - seen).max() <= 1, name


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    for wrong in (np.zeros((4, 4, 3)), np.zeros((4, 4, 4), "u1"), np.zeros(4, "u1"), np.zeros((0, 4), "u1")):
        with pytest.raises(ValueError, match=r"an image is .*, expected \[height, width, 3\] or \[height, width\] uint8"):
            write_png(tmp_path / "a.png", wrong)
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError):
        ssmprobe.open(np.zeros((4, 4), "u1"), 3)  # type: ignore[arg-type]
    gc.collect()  # of a temporary folder that is left, Python warns


def test_a_notebook_shows_the_programs_own_figures(inspected: ssmprobe.Inspection, tmp_path: Path) -> None:
    trace = inspected.traces["00011", "sinkhorn"]
    shown = trace._repr_html_()
    for name in ("photo", "token_map", "scan_path", "evidence"):
        assert f'alt="{name} of 00011.png through sinkhorn.safetensors' in shown
    blocks = [base64.b64decode(block) for block in re.findall(r"base64,([^\"]+)", shown)]
    assert len(blocks) == 4
    assert trace.file is not None
    for name, block in zip(("photo", "token_map"), blocks, strict=False):
        out = tmp_path / f"{name}.svg"
        ssmprobe.run("figures", "--trace", trace.file, "--figure", name, "--out", out)
        # The command that made it is part of a figure, and its paths differ.
        assert block.count(b"<path") == out.read_bytes().count(b"<path"), name
        assert re.findall(rb"<image[^>]*href=\"[^\"]*\"", block) == re.findall(rb"<image[^>]*href=\"[^\"]*\"", out.read_bytes())
    assert trace.svg("photo").count("<path") == blocks[0].count(b"<path")
    assert trace.svg("assignment", "--log") != trace.svg("assignment") != trace.svg("kernel")
    with pytest.raises(ssmprobe.ProgramError, match="it was not requested"):
        trace.svg("gradient")
    with pytest.raises(ValueError, match="expected the name of one"):
        trace.svg("all")
    # A head that reads no order has fewer figures.
    assert "scan_path" not in inspected.traces["00011", "cls"]._repr_html_()


def test_runs_and_evaluations_are_drawn_as_the_program_draws_them(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FROZEN)
    run, evaluation = ssmprobe.read_run("run"), ssmprobe.read_evaluation("surveys/gap-s0-best.survey.json")
    monkeypatch.chdir("/")
    assert "vmamba" in run.svg("training", "--width", 174)
    assert "vmamba" not in run.svg("training", "--heads", "gap")
    assert evaluation.svg("confusion").startswith("<svg")
    with pytest.raises(ValueError, match="expected the name of one"):
        run.svg("all")


def test_names_in_a_notebook_are_escaped_and_a_missing_program_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSMPROBE", "/nowhere/<b>")
    trace = ssmprobe.read_trace(FROZEN / "explained" / "24" / "sinkhorn-s0-best.trace.json")
    object.__setattr__(trace, "image", "<script>alert(1).png")
    shown = trace._repr_html_()
    assert "<script" not in shown
    assert "&amp;lt;" not in shown
    assert "<b>" not in shown
    assert "No figures: SSMPROBE is /nowhere/&lt;b&gt;, expected the program" in shown
    object.__setattr__(trace, "file", None)
    assert "`inspect --save-traces` keeps" in trace._repr_html_()
    with pytest.raises(ValueError, match="has no trace file: `inspect --save-traces` keeps"):
        trace.svg("photo")


def test_what_the_program_says_is_in_the_error(program: Path) -> None:
    with pytest.raises(ssmprobe.ProgramError, match=r"(?s)ended with code 2: .*--out"):
        ssmprobe.run("inspect", "--backbone", "a", "--probe", "b", "--image", "c")


@pytest.mark.parametrize(
    ("file", "left", "found"),
    [
        ("share/ssmprobe/demo/demo.json", None, "it is not there"),
        ("share/ssmprobe/demo/probes/gap.safetensors", b"123", "3 bytes"),
        ("bin/ssmprobe.exe" if sys.platform == "win32" else "bin/ssmprobe", b"", "0 bytes"),
    ],
)
def test_a_damaged_wheel_says_which_file_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, left: bytes | None, found: str
) -> None:
    program = "bin/ssmprobe.exe" if sys.platform == "win32" else "bin/ssmprobe"
    files = [program, *(f"share/ssmprobe/demo/{name}" for name in ("demo.json", "probes/gap.safetensors"))]
    info = tmp_path / "lib" / "site-packages" / "ssmprobe-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ssmprobe\nVersion: 9.9\n")
    (info / "RECORD").write_text("".join(f"../../{name},,8\n" for name in files) + "ssmprobe-9.9.dist-info/RECORD,,\n")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12345678")
    for variable in ("SSMPROBE", "SSMPROBE_ASSETS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.syspath_prepend(str(info.parent))
    monkeypatch.setattr(sysconfig, "get_path", lambda name, *_: str(tmp_path / "bin" if name == "scripts" else tmp_path))
    assert (ssmprobe.program(), ssmprobe.demo()) == (tmp_path / program, tmp_path / "share" / "ssmprobe" / "demo")
    with pytest.raises(ssmprobe.ProgramError, match=r"cannot be started: .*, or name it in SSMPROBE"):
        ssmprobe.run("--version")
    if left is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(left)
    damaged = ssmprobe.program if file == program else ssmprobe.demo
    with pytest.raises(ssmprobe.ProgramError, match=f"{Path(file).name}: {found}, expected 8 bytes; install the wheel again"):
        damaged()


def test_what_pip_installed_for_the_user_alone_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("SSMPROBE", "SSMPROBE_ASSETS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sysconfig, "get_path", lambda name, scheme="all": str(tmp_path / scheme / name))
    user = tmp_path / sysconfig.get_preferred_scheme("user")
    program = user / "scripts" / ("ssmprobe.exe" if sys.platform == "win32" else "ssmprobe")
    demo = user / "data" / "share" / "ssmprobe" / "demo"
    for file in (program, demo / "demo.json"):
        file.parent.mkdir(parents=True)
        file.touch()
    assert (ssmprobe.program(), ssmprobe.demo()) == (program, demo)


def test_a_program_that_is_nowhere_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SSMPROBE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(tmp_path))
    with pytest.raises(ssmprobe.ProgramError, match="install the wheel, or name it in SSMPROBE"):
        ssmprobe.program()
    for folder in ("release", "path"):  # built, and preferred to that: on the PATH
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / ("ssmprobe.exe" if sys.platform == "win32" else "ssmprobe")
        file.touch(0o755)
        assert ssmprobe.program() == file
    monkeypatch.setenv("SSMPROBE_ASSETS", str(tmp_path))
    with pytest.raises(ssmprobe.ProgramError, match=f"not in {re.escape(str(tmp_path))}; name its folder in SSMPROBE_ASSETS"):
        ssmprobe.demo()
    monkeypatch.delenv("SSMPROBE_ASSETS")
    assert ssmprobe.demo() == ROOT / "assets" / "demo"
