"""What tests share: the checkout's frozen files, and what the program makes of the demo."""

import os
from pathlib import Path

import pytest
import ssmprobe

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
FROZEN = FIXTURES / "frozen"


@pytest.fixture(scope="session")
def program() -> Path:
    """The program; a test that needs it is skipped where it is not built, and fails so in CI."""
    try:
        return ssmprobe.program()
    except ssmprobe.ProgramError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"{error}")


@pytest.fixture(scope="session")
def inspected(program: Path, tmp_path_factory: pytest.TempPathFactory) -> ssmprobe.Inspection:
    """One image of the demo through all 30 heads."""
    out, demo = tmp_path_factory.mktemp("inspected"), ROOT / "assets" / "demo"
    image = demo / "scenes" / "val" / "cross-dots" / "00011.png"
    flags: list[str | Path] = ["--save-tokens", "--save-traces", "--device", "cpu", "--null-draws", "4", "--out", out]
    ssmprobe.run("inspect", "--backbone", demo / "vit", "--probe", demo / "probes" / "vit", "--image", image, *flags)
    return ssmprobe.read_inspect(out)


@pytest.fixture(scope="session")
def small(program: Path, tmp_path_factory: pytest.TempPathFactory) -> ssmprobe.Inspection:
    """The fixture's three images through its probes, S4 of every channel among them."""
    out, at = tmp_path_factory.mktemp("small"), FIXTURES / "inspect"
    flags: list[str | Path] = ["--save-tokens", "--device", "cpu", "--null-draws", "4", "--out", out]
    ssmprobe.run(
        "inspect", "--backbone", at / "backbone", "--probe", at / "probes", "--image", at / "images", "--class", "1", *flags
    )
    return ssmprobe.read_inspect(out)
