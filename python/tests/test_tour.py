"""The notebook runs from its first cell to its last, and shows what it says."""

import os
from pathlib import Path

import pytest

from .conftest import ROOT


@pytest.mark.notebook
@pytest.mark.filterwarnings("default")
def test_the_tour_runs(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / "python" / "examples" / "tour.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the notebook is kept without outputs"
    done = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    shown = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert [html.count("data:image/svg+xml") for html in shown] == [4, 0, 0]
    assert all("<table" in table for table in shown[1:])
    assert ["image/svg+xml" in output.get("data", {}) for output in outputs].count(True) == 1
    said = "".join(output.get("text", "") for output in outputs)
    assert "288 images of (196, 96) float16" in said
    assert "| mine" in said
