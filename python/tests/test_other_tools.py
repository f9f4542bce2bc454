"""What the program leaves for other tools: event files for TensorBoard, Parquet, and the example for Weights & Biases."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import ssmprobe

from .conftest import FIXTURES, FROZEN, ROOT

DEMO = ROOT / "assets" / "demo"


@pytest.fixture(scope="module")
def trained(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of two heads, two seeds and two epochs, gone on with, and its event files."""
    folder = tmp_path_factory.mktemp("trained")
    flags: list[str | Path] = ["--cache", folder / "tokens", "--tensorboard", folder / "board", "--out", folder / "run"]
    begun: list[str | Path] = ["--backbone", FIXTURES / "inspect" / "backbone", "--data", FROZEN / "data"]
    begun += ["--heads", "gap,sinkhorn", "--epochs", "2", "--batch", "8"]
    ssmprobe.run("train", *begun, "--device", "cpu", *flags)
    ssmprobe.run("train", "--resume", "--seeds", "2", *flags)
    return folder


@pytest.mark.filterwarnings("default")
def test_tensorboard_reads_what_a_training_wrote(trained: Path) -> None:
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    board = EventMultiplexer().AddRunsFromDirectory(str(trained / "board")).Reload()
    lines = [json.loads(line) for line in (trained / "run" / "metrics.jsonl").read_text().splitlines()]
    told: dict[str, list[dict[str, float]]] = {}
    for line in lines:
        told.setdefault(f"run/{line['head']}-s{line['seed']}", []).append(line)
    assert len(lines) == 8
    assert set(board.Runs()) == set(told)
    tags = {"loss": "loss", "accuracy/train": "train", "accuracy/select": "select", "accuracy/test": "test"}
    for run, epochs in told.items():
        assert set(board.Runs()[run]["scalars"]) == {*tags, "rate"}
        for tag, name in tags.items():
            events = board.Scalars(run, tag)
            assert [event.step for event in events] == [epoch["epoch"] for epoch in epochs]
            np.testing.assert_array_equal([event.value for event in events], [np.float32(epoch[name]) for epoch in epochs])
        rates = [event.value for event in board.Scalars(run, "rate")]
        np.testing.assert_allclose(rates, [1e-3, 0.5e-3], rtol=1e-6)


def same(parquet: Path, csv: Path) -> None:
    """The Parquet file holds the columns of the CSV, in pandas and in polars."""
    text = pd.read_csv(csv, keep_default_na=False, dtype=str)
    frame, other = pd.read_parquet(parquet, engine="pyarrow"), pl.read_parquet(parquet)
    assert list(frame.columns) == list(text.columns) == other.columns
    assert len(frame) == len(text) == other.height > 0
    for name in text.columns:
        if isinstance(frame[name].dropna().iloc[0] if frame[name].notna().any() else 0.0, str):
            assert ["" if pd.isna(value) else value for value in frame[name]] == [word.removeprefix("'") for word in text[name]]
            assert [value or "" for value in other[name]] == [word.removeprefix("'") for word in text[name]]
            continue
        kind = np.float32 if frame[name].dtype == np.float32 else np.float64
        numbers = [kind(word) if word else kind("nan") for word in text[name]]
        np.testing.assert_array_equal(frame[name].to_numpy(dtype=kind, na_value=kind("nan")), numbers, err_msg=name)
        np.testing.assert_array_equal(other[name].cast(pl.Float64).fill_null(float("nan")).to_numpy().astype(kind), numbers)


def test_tables_of_a_report_are_read_by_pandas_and_polars(program: Path, tmp_path: Path) -> None:
    ssmprobe.run("report", FROZEN / "run", "--format", "csv,parquet", "--out", tmp_path)
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) >= 5
    assert len(files) == len(list(tmp_path.glob("*.csv")))
    for file in files:
        same(file, file.with_suffix(".csv"))
    main = pl.read_parquet(tmp_path / "main.parquet")
    assert main["Top-1 (%) best"].dtype == pl.Float64
    assert main["Top-1 (%) best sd"].max() is not None


def test_rows_of_an_evaluation_are_read_by_pandas_and_polars(program: Path, tmp_path: Path) -> None:
    probes = sorted((DEMO / "probes" / "vit").glob("*.safetensors"))[:2]
    flags: list[str | Path] = ["--device", "cpu", "--cache", tmp_path / "tokens", "--evaluation", tmp_path / "both"]
    asked: list[str | Path] = ["--backbone", DEMO / "vit", "--data", DEMO / "scenes", "--probe", *probes]
    ssmprobe.run("eval", *asked, *flags, "--format", "csv,parquet")
    for probe in probes:
        file = tmp_path / "both" / f"{probe.stem}.parquet"
        same(file, file.with_suffix(".csv"))
        right = json.loads(file.with_suffix(".survey.json").read_text())
        known = [one == other for one, other in zip(right["predicted"], right["class"], strict=True)]
        assert pd.read_parquet(file)["correct"].mean() == pytest.approx(np.mean(known))
    only: list[str | Path] = [*flags[:4], "--evaluation", tmp_path / "one", "--format", "parquet"]
    ssmprobe.run("eval", *asked, *only)
    assert {file.name.split(".", 1)[1] for file in (tmp_path / "one").iterdir()} == {"parquet", "survey.json"}


STAND_IN = """
import json, os

class Run:
    def __init__(self, asked): self.told = {"asked": asked, "logged": []}
    def log(self, values, step): self.told["logged"].append([step, values])
    def finish(self):
        with open(os.environ["WANDB_TOLD"], "a") as file: file.write(json.dumps(self.told) + chr(10))

def init(**asked): return Run(asked)
"""


def test_the_example_sends_a_run_to_weights_and_biases(tmp_path: Path) -> None:
    (tmp_path / "wandb.py").write_text(STAND_IN)
    told = tmp_path / "told"
    environment = {"PYTHONPATH": str(tmp_path), "WANDB_TOLD": str(told), "PATH": ""}
    script = ROOT / "python" / "examples" / "wandb_metrics.py"
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(FROZEN / "run" / "run.json", run)
    metrics = (FROZEN / "run" / "metrics.jsonl").read_text()
    within = json.loads(metrics.splitlines()[0]) | {"step": 1}
    (run / "metrics.jsonl").write_text(f"{json.dumps(within)}\n{metrics}")
    subprocess.run([sys.executable, script, run, "birds"], env=environment, check=True)
    runs = [json.loads(line) for line in told.read_text().splitlines()]
    lines = [json.loads(line) for line in metrics.splitlines()]
    assert len(runs) == 12
    for sent in runs:
        asked = sent["asked"]
        head, seed = asked["config"]["head"], asked["config"]["seed"]
        assert (asked["project"], asked["group"], asked["id"]) == ("birds", "run", f"run-{head}-s{seed}")
        assert (asked["config"]["backbone"], asked["config"]["epochs"]) == ("backbone", 2)
        own = [line for line in lines if (line["head"], line["seed"]) == (head, seed)]
        expected = [[line["epoch"], {name: line[name] for name in ("loss", "train", "select", "test")}] for line in own]
        assert sent["logged"] == expected
