"""Readers and damaged files: whatever a field holds instead, a file is read or refused by name, and nothing else happens."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ssmprobe
from ssmprobe._files import read_npz, read_safetensors, write_safetensors

from .conftest import FROZEN

INSTEAD: list[Any] = [None, True, -1, 3, 1e400, 1 << 70, 10**400, "x", "", [], [1], [[1], 2], ["x"], {}, {"x": 1}]
ROUNDS = 300


def damaged(value: Any, rng: random.Random) -> Any:
    """The same with one field, somewhere, holding something else, or gone."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {key: kept for key, kept in value.items() if key != name}
        return value | {name: damaged(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.6:
        at = rng.randrange(len(value))
        return [*value[:at], damaged(value[at], rng), *value[at + 1 :]]
    return rng.choice(INSTEAD)


def each(file: Path, reader: Callable[[], object]) -> None:
    """Damages a JSON file again and again: most of it is refused, with the file's own name."""
    whole, rng, refused = json.loads(file.read_text()), random.Random(7), 0
    reader()
    for _ in range(ROUNDS):
        file.write_text(json.dumps(damaged(whole, rng)))
        try:
            reader()
        except (ssmprobe.FileError, FileNotFoundError) as error:
            assert str(file.parent) in str(error), error
            refused += 1
    assert refused > ROUNDS / 6, refused


def each_byte(file: Path, reader: Callable[[], object]) -> None:
    """Damages bytes of a file again and again: it is read, or refused with its own name."""
    content, rng = file.read_bytes(), random.Random(7)
    for _ in range(ROUNDS):
        changed = bytearray(content)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        file.write_bytes(bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.2 else changed))
        try:
            reader()
        except ssmprobe.FileError as error:
            assert str(file) in str(error)


@pytest.mark.parametrize("name", ["sinkhorn-s0-best", "vmamba-s0-best", "gap-s0-best"])
def test_traces_and_evaluations(tmp_path: Path, name: str) -> None:
    trace = tmp_path / "a.trace.json"
    shutil.copy(FROZEN / "explained" / "24" / f"{name}.trace.json", trace)
    each(trace, lambda: ssmprobe.read_trace(trace))
    evaluation = tmp_path / "a.survey.json"
    shutil.copy(FROZEN / "surveys" / f"{name}.survey.json", evaluation)

    def read() -> None:
        found = ssmprobe.read_evaluation(evaluation)
        assert found.table().rows == len(found.images)
        assert not found.accuracy < 0

    each(evaluation, read)


def test_what_inspect_wrote(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(FROZEN / "explained", folder)
    each(folder / "24" / "sinkhorn-s0-best.json", lambda: list(ssmprobe.read_inspect(folder).traces.values()))


@pytest.mark.parametrize("name", ["run.json", "answers/truth.json", "answers/sinkhorn-s0.json"])
def test_runs(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FROZEN / "run", folder)
    each(folder / name, lambda: ssmprobe.read_run(folder))


def test_token_caches(tmp_path: Path) -> None:
    (cache,) = (FROZEN / "tokens").iterdir()
    folder = tmp_path / "cache"
    shutil.copytree(cache, folder)
    each(folder / "manifest.json", lambda: ssmprobe.tokens(folder))


def test_descriptions_and_headers_of_probes(tmp_path: Path) -> None:
    whole = FROZEN / "run" / "probes" / "sinkhorn-s0-best.safetensors"
    tensors, metadata = read_safetensors(whole)
    description, file = tmp_path / "a.json", tmp_path / "a.safetensors"
    description.write_text(metadata["ssmprobe"])

    def read() -> None:
        write_safetensors(file, tensors, {"ssmprobe": description.read_text()})
        ssmprobe.load_probe(file)

    each(description, read)
    shutil.copy(whole, file)
    each_byte(file, lambda: ssmprobe.load_probe(file))


@pytest.mark.filterwarnings("default")
def test_archives(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    for values in (np.arange(50.0), np.zeros(500)):
        np.savez_compressed(file, a=values, b=np.eye(3))
        each_byte(file, lambda: read_npz(file))
