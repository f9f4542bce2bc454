"""Readers: every kind of file that the program has written, and damaged ones."""

import base64
import json
import os
import pickle
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ssmprobe
from ssmprobe._dataset import MAPPED
from ssmprobe._files import MAX_TEXT_BYTES, SHOWN_COLUMNS, Table, read_csv, read_npz, read_safetensors, write_safetensors

from .conftest import FROZEN, ROOT

TEXT = ("image", "class", "prediction", "top_1", "top_2", "top_3", "top_4", "top_5")


def test_a_run_is_tables() -> None:
    run = ssmprobe.read_run(FROZEN / "run")
    assert (run.results.rows, run.metrics.rows) == (12, 24)
    names = ["head", "seed", "best", "last", "best_epoch", "parameters", "seconds", "layer", "rate"]
    assert list(run.results) == names
    assert (run.results["layer"][4], run.results["rate"][4]) == ("last", 0.01)
    assert (run.results["head"][4], run.results["best"][4]) == ("sinkhorn", 16.667)
    assert [run.results[name].dtype.kind for name in ("head", "seed", "seconds")] == ["O", "i", "f"]
    assert [name.split("/")[1] for name in run.images] == [run.classes[label] for label in run.labels]
    # Predictions, labels and results are of one story.
    for head, seed, best, last in zip(*(run.results[name] for name in ("head", "seed", "best", "last")), strict=True):
        found = run.predictions[head, seed]
        assert abs(100 * (found["best"] == run.labels).mean() - best) < 1e-3
        assert abs(100 * (found["last"] == run.labels).mean() - last) < 1e-3
        assert ssmprobe.load_probe(run.probes[head, seed, "best"]).head == head
    assert run.losses["gap", 0].shape == (2, 3)
    # Steps are of equal batches: an epoch's loss is the mean over its parts.
    loss = run.metrics["loss"][(run.metrics["head"] == "gap") & (run.metrics["seed"] == 0)]
    np.testing.assert_allclose(run.losses["gap", 0].mean(1), loss, rtol=1e-6)
    stopped = ssmprobe.read_run(FROZEN / "stopped")
    assert (stopped.results.rows, stopped.evaluation) == (2, None)
    assert run.evaluation is not None
    assert {probe["head"] for probe in run.evaluation["probes"]} == {*run.results["head"]}
    assert ": 1 probe, 1 test image, results: Table of 1 row: " in repr(
        replace(stopped, probes={("gap", 0, "best"): FROZEN}, images=("a",), failures={}, results=Table({"head": ["gap"]}))
    )
    assert ssmprobe.read_run(FROZEN / "grid").results["head"][0] == "sinkhorn[temperature=0.1,iterations=2]"


def test_results_have_the_layer_and_rate_of_each_head(tmp_path: Path) -> None:
    shutil.copytree(FROZEN / "run", tmp_path, dirs_exist_ok=True)
    manifest = json.loads((tmp_path / "run.json").read_text())
    assert (manifest["heads"][1].pop("name"), manifest["heads"][0].get("layer")) == ("cls", None)
    manifest["heads"][1] |= {"name": "another", "layer": "1"}
    manifest["heads"][2] |= {"layer": "1", "rate": 0.1}
    manifest["tokens"]["layer"] = "last, shuffled by seed 3, in bfloat16"
    (tmp_path / "run.json").write_text(json.dumps(manifest))
    results = ssmprobe.read_run(tmp_path).results
    axes = {
        head: (layer, rate) for head, layer, rate in zip(*(results[name] for name in ("head", "layer", "rate")), strict=True)
    }
    assert (axes["gap"], axes["attention"]) == (("last", 0.01), ("1", 0.1))
    # Rows of a head that the run does not list are kept.
    assert axes["cls"][0] is None
    assert np.isnan(axes["cls"][1])


def test_losses_that_end_within_an_epoch_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FROZEN / "run", folder)
    file = folder / "losses" / "s0.safetensors"
    whole, metadata = read_safetensors(file)
    write_safetensors(file, {"gap": whole["gap"][:4].copy(), "sinkhorn": whole["sinkhorn"][:0]}, metadata)
    losses = ssmprobe.read_run(folder).losses
    np.testing.assert_array_equal(losses["gap", 0], [whole["gap"][:3], [whole["gap"][3], np.nan, np.nan]])
    assert (losses["gap", 0].dtype.name, losses["sinkhorn", 0].shape) == ("float32", (0, 3))
    write_safetensors(file, {}, {name: text.replace('"parts":3', '"parts":5000') for name, text in metadata.items()})
    with pytest.raises(ssmprobe.FileError, match="`parts` is 5000, expected a whole number from 1 to 4096"):
        ssmprobe.read_run(folder)


def test_an_evaluation_is_columns() -> None:
    files = sorted(FROZEN.glob("*/*.survey.json"))
    assert len(files) >= 24
    for file in files:
        found = ssmprobe.read_evaluation(file)
        rows = read_csv(file.with_name(file.name.replace(".survey.json", ".csv")), TEXT)
        columns = found.table()
        for name in ("image", "class", "prediction"):
            assert list(columns[name]) == list(rows[name]), file
        for name in (*found.measures.keys() & rows.keys(), "correct"):
            np.testing.assert_allclose(columns[name], rows[name], rtol=1e-6)
        assert found.accuracy == pytest.approx(100 * rows["correct"].mean())
        assert found.positions is None or found.positions.shape == (3, 16)
    with_band = ssmprobe.read_evaluation(FROZEN / "surveys" / "sinkhorn-s0-best.survey.json")
    assert with_band.nulls["rank_coverage"] == (0.571875, 0.875)
    assert with_band.provenance is None


def test_vectors_of_an_evaluation_are_kept(tmp_path: Path) -> None:
    value = json.loads((FROZEN / "surveys" / "gap-s0-best.survey.json").read_text())
    values = np.arange(12 * 16, dtype="<f2").reshape(12, 16)
    value["vectors"] = {"routing": {"none": "no order"}, "weight": {"float16": base64.b64encode(values.tobytes()).decode()}}
    value["predicted"][:2], value["measures"]["confidence"][1] = [(1 << 32) - 1] * 2, None  # the second could not be read
    value["provenance"] = {"image_files": "ce02"}
    file = tmp_path / "a.survey.json"
    file.write_text(json.dumps(value))
    found = ssmprobe.read_evaluation(file)
    assert found.provenance == {"image_files": "ce02"}
    assert list(found.vectors) == ["weight"]
    np.testing.assert_array_equal(found.vectors["weight"], values)
    assert (list(found.predicted[:2]), list(found.table()["prediction"][:2])) == ([-1, -1], ["another class", ""])
    right = (found.predicted == found.labels).sum()
    assert found.accuracy == pytest.approx(100 * right / 11), "of the images that could be read"
    assert repr(found).endswith(f" {100 * right / 11:.2f} % of 11 images")
    np.testing.assert_array_equal(found.table()["correct"][:2], [0, np.nan])
    value["vectors"] = {"weight": {"float16": "AAAA"}}
    file.write_text(json.dumps(value))
    with pytest.raises(ssmprobe.FileError, match=r"vectors of `weight` is .*, expected float16 in base64, \[12, 16\]"):
        ssmprobe.read_evaluation(file)


def test_what_inspect_wrote_earlier_is_read() -> None:
    for name, head in (("explained", "vmamba"), ("attributed", "sinkhorn")):
        found = ssmprobe.read_inspect(FROZEN / name)
        assert found.summary.rows == len(found.traces) == len(list(found.traces.values()))
        with pytest.raises(KeyError, match=r"has no image and probe \('24', 'nobody'\); it has \[\('24', '.*-s0-best'\)"):
            found.traces["24", "nobody"]
        trace = found.traces["24", f"{head}-s0-best"]
        assert (trace.head, trace.grid) == (head, (4, 4))
        assert trace.file is not None
        again = ssmprobe.read_trace(trace.file)
        for field in ("logits", "scores", "plan", "orders", "kernels", "token_weight"):
            one, other = getattr(trace, field), getattr(again, field)
            assert (one is None) == (other is None), field
            if one is not None:
                np.testing.assert_array_equal(one, other)
        assert again.predictions[0].index == int(np.argmax(again.logits))
        assert again.picture is not None
        assert again.picture.shape == (32, 32, 3)
        for field in ("token", "position", "position_raster", "proxy", "proxy_raster"):
            np.testing.assert_array_equal(getattr(again.evidence, field), getattr(trace.evidence, field), err_msg=field)
    assert sorted(ssmprobe.read_inspect(FROZEN / "attributed").traces["24", "sinkhorn-s0-best"].attributions) == [
        "gradient",
        "integrated",
        "rollout",
    ]
    coverage = found.traces["24", "sinkhorn-s0-best"].diagnostics["rank_coverage"]
    assert coverage.null is not None
    assert coverage.null[0] <= coverage.null[1] <= 1


def test_removal_stability_and_regions_are_read_with_their_trace(tmp_path: Path) -> None:
    shutil.copytree(FROZEN / "explained", tmp_path / "out")
    verdict = tmp_path / "out" / "24" / "sinkhorn-s0-best.json"
    regions: dict[str, object] = {"object": {}, "list": [], "precedence": []}
    verdict.write_text(json.dumps(json.loads(verdict.read_text()) | {"regions": regions}))
    stable = ssmprobe.read_inspect(tmp_path / "out").traces["24", "sinkhorn-s0-best"]
    assert stable.stability is not None
    assert stable.stability["groups"][0]["name"] == "Flipped horizontally"
    assert (stable.regions, dict(stable.removal)) == (regions, {})
    removed = ssmprobe.read_inspect(FROZEN / "attributed").traces["24", "sinkhorn-s0-best"]
    assert removed.removal["rerouted_deletion_evidence_probability"].shape == removed.removal["fraction"].shape
    assert (removed.stability, removed.regions) == (None, None)
    file = tmp_path / "out" / "24" / "sinkhorn-s0-best.stability.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 2}))
    with pytest.raises(ssmprobe.FileError, match=r"stability.json: `format` is 2, expected 1"):
        ssmprobe.read_inspect(tmp_path / "out").traces["24", "sinkhorn-s0-best"]


def test_the_only_cache_of_a_folder_is_opened(tmp_path: Path) -> None:
    shutil.copytree(FROZEN / "tokens", tmp_path / "tokens")
    (folder,) = (tmp_path / "tokens").iterdir()
    assert repr(ssmprobe.tokens(tmp_path / "tokens")) == repr(ssmprobe.tokens(folder))
    shutil.copytree(folder, tmp_path / "tokens" / "another")
    for place, count in ((tmp_path / "tokens", 2), (tmp_path, 0)):
        with pytest.raises(ssmprobe.FileError, match=f"number of token caches is {count}, expected 1, or the folder of one"):
            ssmprobe.tokens(place)


def test_a_file_of_another_kind_is_refused_with_what_was_expected() -> None:
    trace = FROZEN / "explained" / "24" / "sinkhorn-s0-best.trace.json"
    evaluation = FROZEN / "surveys" / "sinkhorn-s0-best.survey.json"
    traces = "is something else, without `seen`, expected what `inspect --save-traces` writes: <probe>.trace.json"
    for file in (evaluation, trace.with_name("sinkhorn-s0-best.json")):
        with pytest.raises(ssmprobe.FileError, match=traces):
            ssmprobe.read_trace(file)
    for file, found in ((trace, "something else, without `measures`"), (evaluation.parent, "a folder")):
        with pytest.raises(ssmprobe.FileError, match=f"is {found}, expected what `eval --evaluation` writes: <probe>.survey"):
            ssmprobe.read_evaluation(file)
    with pytest.raises(ssmprobe.FileError, match=r"header's length is .*, as in a `.safetensors` file"):
        ssmprobe.load_probe(trace)


def test_what_is_read_is_named_in_one_line() -> None:
    run, explained = ssmprobe.read_run(FROZEN / "run"), ssmprobe.read_inspect(FROZEN / "explained")
    survey = FROZEN / "surveys" / "sinkhorn-s0-best.survey.json"
    probe = ssmprobe.load_probe(next(iter(run.probes.values())))
    (cache,) = (FROZEN / "tokens").iterdir()
    read = (ssmprobe.read_evaluation(survey), ssmprobe.tokens(cache), probe(np.zeros((16, 24))))
    assert repr(explained).endswith(f" and {len(explained.summary) - SHOWN_COLUMNS} more")
    one = replace(explained, traces=dict(list(explained.traces.items())[:1]))
    assert repr(one).startswith("Inspection of 1 trace; ")
    as_trained = explained.traces["24", "sinkhorn-s0-best"]
    assert repr(as_trained).endswith("%)")
    assert repr(replace(as_trained, reading="no routing")) == f"{as_trained!r}; no routing"
    assert repr(replace(as_trained, reading={"class": "owl", "layer": 1})) == f"{as_trained!r}; changed: class, layer"
    for found in (run, explained, probe, next(iter(explained.traces.values())), *read):
        assert "\n" not in repr(found)
        assert "array(" not in repr(found)


def test_what_is_read_later_is_found_from_another_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FROZEN)
    explained, run = ssmprobe.read_inspect("explained"), ssmprobe.read_run("run")
    trace = ssmprobe.read_trace("explained/24/sinkhorn-s0-best.trace.json")
    monkeypatch.chdir("/")
    assert explained.traces["24", "sinkhorn-s0-best"].head == "sinkhorn"
    assert ssmprobe.load_probe(run.probes["gap", 0, "best"]).head == "gap"
    assert trace.file is not None
    assert trace.file.is_file()


def test_every_frozen_trace_is_read() -> None:
    files = sorted(FROZEN.glob("*/*/*.trace.json"))
    assert len(files) >= 11
    for file in files:
        trace = ssmprobe.read_trace(file)
        assert trace.token_weight is None or trace.token_weight.shape == (16,)
        assert trace.kernels is None or trace.kernels.shape[1] == 16


def test_a_cache_is_mapped_and_not_read() -> None:
    (folder,) = (FROZEN / "tokens").iterdir()
    cache = ssmprobe.tokens(folder)
    assert (len(cache), cache.grid, cache.width, bool(cache.readable.all())) == (36, (4, 4), 24, True)
    tensors, _ = read_safetensors(folder / "tokens-000000.safetensors")
    np.testing.assert_array_equal(cache.patches(35), tensors["patches"][35])
    np.testing.assert_array_equal(cache.patches(-1), tensors["patches"][35])
    np.testing.assert_array_equal(np.asarray(cache.cls(7)), tensors["cls"][7])
    base = cache.patches(0)
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)
    np.testing.assert_array_equal(cache.patches(np.flatnonzero(cache.readable)[-1]), tensors["patches"][35])
    for image in (36, -37):
        with pytest.raises(IndexError, match=f"image {image} of 36"):
            cache.patches(image)
    assert len(pickle.dumps(cache)) < 1000, "it is mapped again, not sent"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(cache)).patches(35), tensors["patches"][35])


def test_a_cache_of_several_shards_is_one(tmp_path: Path) -> None:
    (folder,) = (FROZEN / "tokens").iterdir()
    manifest = json.loads((folder / "manifest.json").read_text()) | {"images": 70, "has_cls": False}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    values = np.random.default_rng(0).standard_normal((70, 16, 24)).astype("f4")
    for index, part in enumerate((values[:64], values[64:])):
        metadata = {"skipped": "[1]"} if index else {}
        write_safetensors(tmp_path / f"tokens-{index:06}.safetensors", {"patches": part}, metadata)
    cache = ssmprobe.tokens(tmp_path)
    for image in (0, 63, 64, 69):
        np.testing.assert_array_equal(cache.patches(image), values[image])
    assert np.flatnonzero(~cache.readable).tolist() == [65]
    assert cache.cls(0) is None
    write_safetensors(tmp_path / "tokens-000001.safetensors", {"patches": values[65:]}, {})
    with pytest.raises(ssmprobe.FileError, match=r"tokens-000001.safetensors: `patches` is .*, expected \[6, 16, 24\]"):
        ssmprobe.tokens(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_a_cache_holds_few_of_its_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssmprobe._dataset.SHARD", 1)
    (folder,) = (FROZEN / "tokens").iterdir()
    manifest = json.loads((folder / "manifest.json").read_text()) | {"images": 100, "has_cls": False}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    values = np.random.default_rng(0).standard_normal((100, 1, 16, 24)).astype("f4")
    for index, part in enumerate(values):
        write_safetensors(tmp_path / f"tokens-{index:06}.safetensors", {"patches": part}, {})
    before = len(os.listdir("/proc/self/fd"))
    cache = ssmprobe.tokens(tmp_path)
    for image in range(100):
        np.testing.assert_array_equal(cache.patches(image), values[image, 0])
    assert len(os.listdir("/proc/self/fd")) <= before + MAPPED


def test_a_run_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FROZEN / "run", folder)
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(manifest | {"format": 2}))
    with pytest.raises(ssmprobe.FileError, match=r"run.json: `format` is 2, expected 1; open it with the version"):
        ssmprobe.read_run(folder)
    (folder / "run.json").write_text(json.dumps(manifest))
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    within = json.dumps(json.loads(lines[0]) | {"step": 1})
    (folder / "metrics.jsonl").write_text("\n".join([within, *lines]))
    run = ssmprobe.read_run(folder)
    assert run.metrics.rows == len(lines), "an evaluation within an epoch is no epoch"
    assert (run.steps.rows, run.steps["step"].tolist(), run.steps["loss"][0]) == (1, [1], run.metrics["loss"][0])
    (folder / "metrics.jsonl").write_text("\n".join([lines[0], lines[1].replace('"loss"', '"los"')]))
    with pytest.raises(ssmprobe.FileError, match=r"metrics.jsonl:2: `loss` of the file is absent, expected"):
        ssmprobe.read_run(folder)


def test_a_head_whose_training_stopped_early_is_told(tmp_path: Path) -> None:
    shutil.copytree(FROZEN / "run", tmp_path / "run")
    file, why = tmp_path / "run" / "answers" / "sinkhorn-s0.json", "the loss became NaN in epoch 2"
    assert (ssmprobe.read_run(tmp_path / "run").failures, "early" in repr(ssmprobe.read_run(tmp_path / "run"))) == ({}, False)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"failure": why}))
    run = ssmprobe.read_run(tmp_path / "run")
    assert (run.failures, "probes, 1 stopped early, " in repr(run)) == ({("sinkhorn", 0): why}, True)


def test_a_run_of_tasks_that_are_not_joined_says_where_its_parts_are(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "plan.json").touch()
    with pytest.raises(ssmprobe.FileError, match=r"run.json: the file is absent, expected a run; `ssmprobe jobs` shows"):
        ssmprobe.read_run(tmp_path)
    shutil.copytree(FROZEN / "run", tmp_path, dirs_exist_ok=True)
    assert ssmprobe.read_run(tmp_path).results.rows == 12


def test_a_damaged_trace_says_which_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = json.loads((FROZEN / "explained" / "24" / "sinkhorn-s0-best.trace.json").read_text())
    file = tmp_path / "a.trace.json"
    for field, found, message in (
        ("logits", "none", "`logits` of the file is a text, expected a list"),
        ("scores", [1, 2], r"`scores` is 2 numbers, expected numbers of shape \[16\]"),
        ("scores", [[1], 2], "`scores` is not a list of numbers, expected numbers"),
        ("seen", None, "`seen` of the file is null, expected an object"),
        ("grid", {"rows": 4}, "`cols` of `grid` is absent, expected a whole number"),
        ("format", 2, "`format` is 2, expected 1; open it with the version"),
        ("other_kernels", [{"rows": 1, "cols": 1, "data": [1]}], r"`other_kernels` is \[.*\], expected kernels of one shape"),
    ):
        file.write_text(json.dumps(value | {field: found}))
        with pytest.raises(ssmprobe.FileError, match=message):
            ssmprobe.read_trace(file)
    for text in ("{", '{"grid": ' + "9" * 5000 + "}"):
        file.write_text(text)
        with pytest.raises(ssmprobe.FileError, match="its text is no JSON") as error:
            ssmprobe.read_trace(file)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value), "it reaches the parent of a worker"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ssmprobe.FileError, match="byte 0 is no UTF-8"):
        ssmprobe.read_trace(file)
    monkeypatch.setattr("ssmprobe._files.MAX_TEXT_BYTES", 1)
    with pytest.raises(ssmprobe.FileError, match="its size is 2 bytes, expected at most 1"):
        ssmprobe.read_trace(file)


def test_an_evaluation_that_the_program_reads_is_not_too_long() -> None:
    source = (ROOT / "src" / "app" / "cli" / "figures" / "source.rs").read_text(encoding="utf-8")
    assert f"const MAX_EVALUATION_BYTES: u64 = {MAX_TEXT_BYTES >> 30} << 30;" in source


def test_words_are_no_numbers_and_fractions_no_classes(tmp_path: Path) -> None:
    value = json.loads((FROZEN / "surveys" / "gap-s0-best.survey.json").read_text())
    file = tmp_path / "a.survey.json"
    words = ["1"] * 12
    for field, found in (
        ("class", [0.5] * 12),
        ("predicted", words),
        ("predicted", [None, "1"] * 6),
        ("measures", {"confidence": words}),
    ):
        file.write_text(json.dumps(value | {field: found}))
        with pytest.raises(ssmprobe.FileError, match=r"`(class|predicted|confidence)` is not a list of numbers"):
            ssmprobe.read_evaluation(file)


def test_a_hostile_header_takes_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"

    def refused(header: object, message: str, length: int | None = None) -> None:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        file.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + bytes(16))
        with pytest.raises(ssmprobe.FileError, match=message):
            read_safetensors(file)

    entry = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
    refused({}, "the header's length is 18446744073709551615, expected at most 18 of 26 bytes", 2**64 - 1)
    refused(b"[1]", "the file is a list, expected an object")
    refused(b"\xff", "the header is no UTF-8")
    refused({"a": entry | {"shape": [1 << 40, 1 << 40]}}, "the place of `a` is bytes 0 to 16 of 16, expected")
    refused({"a": entry | {"data_offsets": [0, 1 << 60]}}, "the place of `a`")
    refused({"a": entry | {"shape": [-4]}}, "expected whole numbers from 0")
    refused({"a": entry | {"shape": [1] * 70 + [4]}}, "the shape of `a` is .*, expected one that NumPy has")
    refused({"a": entry | {"shape": [True]}}, "expected whole numbers from 0")
    refused({"a": entry | {"dtype": "F8"}}, "the type of `a` is F8")
    refused({"a": 3}, "tensor `a` is a whole number, expected an object")
    refused({"__metadata__": {"ssmprobe": 3}}, "`ssmprobe` of the metadata is a whole number, expected a text")
    file.write_bytes(b"123")
    with pytest.raises(ssmprobe.FileError, match="its size is 3 bytes"):
        read_safetensors(file)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no umask")
def test_what_is_written_is_as_readable_as_other_new_files(tmp_path: Path) -> None:
    file, before = tmp_path / "a.safetensors", os.umask(0o077)
    try:
        write_safetensors(file, {}, {})
        assert os.umask(0o002) == 0o077
        assert file.stat().st_mode & 0o777 == 0o600
        link = tmp_path / "link"
        link.symlink_to(file)
        write_safetensors(link, {}, {})
        assert file.stat().st_mode & 0o777 == 0o664
        assert link.is_symlink()
        with pytest.raises(FileNotFoundError, match=r"no-folder/b'$"):
            write_safetensors(tmp_path / "no-folder" / "b", {}, {})
        assert len(list(tmp_path.iterdir())) == 2
        assert int.from_bytes(file.read_bytes()[:8], "little") % 8 == 0, "tensors are aligned"
    finally:
        os.umask(before)


def test_types_of_tensors_are_read(tmp_path: Path) -> None:
    file, values = tmp_path / "a.safetensors", np.array([1.0, -2.5, 0.0], dtype="<f4")
    bits = (values.view("<u4") >> 16).astype("<u2")  # these are exact in bfloat16
    header = {"a": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + bits.tobytes())
    np.testing.assert_array_equal(read_safetensors(file)[0]["a"], values)


def test_an_archive_with_pickles_or_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.npz"
    np.savez(file, a=np.array([{}], dtype=object))
    with pytest.raises(ssmprobe.FileError, match="an array is"):
        read_npz(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY")
    with pytest.raises(ssmprobe.FileError):
        read_npz(file)
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1 << 45,)}".replace("1 << 45", str(1 << 45)).ljust(117) + "\n"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00\x76\x00" + header.encode())
    with pytest.raises(ssmprobe.FileError, match="Unable to allocate"):
        read_npz(file)
    file.write_bytes(b"no archive")
    with pytest.raises(ssmprobe.FileError, match="the file is no NPZ"):
        read_npz(file)
    np.savez(file, a=np.zeros(100))
    monkeypatch.setattr("ssmprobe._files.MAX_ARCHIVE_BYTES", 100)
    with pytest.raises(ssmprobe.FileError, match="its size unpacked is"):
        read_npz(file)


def test_a_csv_is_read_as_it_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('# title: one\nname,count,value\n"\'=1+1",3,\n"\'\t7",4,-0.5\n')
    found = read_csv(file, ("name",))
    assert list(found["name"]) == ["=1+1", "\t7"]
    own = tmp_path / "own.csv"
    own.write_text("name\n''=1\n'x\n", encoding="utf-8")
    assert list(ssmprobe.read_csv(own, ("name",))["name"]) == ["'=1", "'x"], "an apostrophe of its own is kept"
    assert (found["count"].dtype.kind, list(found["count"])) == ("i", [3, 4])
    assert np.isnan(found["value"][0])
    file.write_text("seed\n1152921504606846977\n")
    assert read_csv(file, ())["seed"][0] == (1 << 60) + 1
    with pytest.raises(KeyError, match="there is no column 'cuont'; there are name, count, value"):
        found["cuont"]
    names = ["line\u2028separator", "next\x85line", "form\x0cfeed", "carriage\r\nreturn"]
    file.write_text("# title: one\r\nname\r\n" + "".join(f'"{name}"\r\n' for name in names), encoding="utf-8", newline="")
    assert list(read_csv(file, ("name",))["name"]) == names
    file.write_text('a\n"' + "x\n" * 100_000)
    with pytest.raises(ssmprobe.FileError, match=r"its text is no CSV \(field larger"):
        read_csv(file, ())
    file.write_text("a,b\n1\n")
    with pytest.raises(ssmprobe.FileError, match="row 2 is 1 cells, expected 2"):
        read_csv(file, ())
    file.write_text("a,word\n1,x\n")
    with pytest.raises(ssmprobe.FileError, match=r"a cell of `word` is 'x', expected .* `text` names"):
        ssmprobe.read_csv(file)
    assert list(ssmprobe.read_csv(file, "word")["word"]) == ["x"], "a word is no list of letters"


def test_a_table_goes_to_pandas_and_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = ssmprobe.read_run(FROZEN / "run").results
    frame = table.to_pandas()
    assert frame.groupby("head")["best"].mean()["vmamba"] == pytest.approx(41.667)
    assert frame.equals(pandas.DataFrame(table))
    assert polars.DataFrame(table).equals(polars.from_pandas(frame))
    assert pickle.loads(pickle.dumps(table)).to_pandas().equals(frame)
    assert table._repr_html_() == frame._repr_html_()
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert table._repr_html_() is None
