"""What lies on disk of whole datasets: evaluations, runs and token caches."""

from __future__ import annotations

import base64
import binascii
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from ._files import (
    Array,
    FileError,
    Json,
    PathLike,
    Table,
    counted,
    format_of,
    of_kind,
    read_csv,
    read_json,
    read_safetensors,
    read_text,
    table,
)
from ._program import Word, svg

OTHER = (1 << 32) - 1  # the class of an image taken for something the dataset does not know
SHARD = 64  # images in a shard of a token cache
MAPPED = 16  # most shards of a cache that are mapped at a time: each holds a file open, and a process may have few hundred
PARTS = 4096  # most parts of an epoch whose losses are kept


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What one probe made of M images (`eval --evaluation`, `<probe>.survey.json`). N patch tokens, C classes."""

    dataset: str
    split: str
    classes: tuple[str, ...]
    """Names of the C classes."""
    images: tuple[str, ...]
    """Names of the M images."""
    labels: Array
    """[M]: the class of every image, as its place in `classes`."""
    probe: str
    head: str
    change: str
    """What was changed in how it read; empty for nothing."""
    backbone: str
    grid: tuple[int, int]
    """Rows and columns of the patches."""
    predicted: Array
    """[M]: the predicted class likewise, -1 for one that the dataset does not know and of an image that could not be read."""
    measures: Mapping[str, Array]
    """[M] each, NaN where it is not known: `confidence` and `own_class_probability` (0 to 1), diagnostics, order tests."""
    nulls: Mapping[str, tuple[float, float]]
    """5th and 95th percentile that chance gives for one image, by measure."""
    positions: Array | None
    """[C, N]: where tokens came, 0 the first and 1 the last, mean over the images of a class."""
    weights: Array | None
    """[C, N]: what tokens counted, times N, mean over the images of a class."""
    vectors: Mapping[str, Array]
    """[M, N] float16 each: `routing`, `evidence`, `weight`, as far as they were kept (docs/definitions.md, section 14)."""
    regions: Mapping[str, Any] | None
    """How it read marked regions, as the file has it (section 15)."""
    provenance: Mapping[str, Any] | None
    """What made it, with the SHA-256 of probe, weights and images (section 8); the window writes none."""
    file: Path
    """The file, which figures are drawn of."""

    def __repr__(self) -> str:
        read = int(np.count_nonzero(np.isfinite(self.correct)))
        return f"Evaluation of {self.probe} on {self.dataset}: {self.accuracy:.2f} % of {counted(read, 'image')}"

    @property
    def correct(self) -> Array:
        """[M]: 1 where the prediction is the image's class, else 0; NaN of an image that could not be read."""
        return np.where(np.isfinite(self.measures["confidence"]), self.predicted == self.labels, np.nan)

    @property
    def accuracy(self) -> float:
        """Top-1 accuracy in percent, over the images that could be read; NaN where there is none."""
        correct = self.correct[np.isfinite(self.correct)]
        return float(100 * correct.mean()) if correct.size else float("nan")

    def svg(self, figure: str, *flags: Word) -> str:
        """One of its figures as the program draws it, as of a trace: `evaluation.svg("confusion")`."""
        return svg("evaluation", self.file, figure, *flags)

    def table(self) -> Table:
        """One row an image: its name, class, prediction (empty where the image could not be read), `correct`, and measures."""
        names = np.array([*self.classes, "another class"], dtype=object)
        columns = {"image": np.array(self.images, dtype=object), "class": names[self.labels]}
        predictions = np.where(np.isfinite(self.correct), names[self.predicted], "")
        return Table(columns | {"prediction": predictions, "correct": self.correct} | dict(self.measures))


def read_evaluation(file: PathLike) -> Evaluation:
    """Reads what a probe made of a dataset: one `<probe>.survey.json` of the folder of `eval --evaluation`."""
    kind = "what `eval --evaluation` writes: <probe>.survey.json"
    if Path(file).is_dir():
        raise FileError(file, "the file", "a folder", kind)
    value = read_json(file)
    of_kind(value, "measures", kind)
    format_of(value, 1, default=1)
    classes, images = value.texts("classes"), value.texts("images")
    rows, cols = value.grid()
    labels, predicted = (value.array(name, (len(images),), "i8") for name in ("class", "predicted"))
    predicted = np.where(predicted == OTHER, -1, predicted)
    for name, found, least in (("class", labels, 0), ("predicted", predicted, -1)):
        if found.size and not (least <= found.min() and found.max() < len(classes)):
            raise FileError(file, f"`{name}`", f"{found.min()} to {found.max()}", f"one of {len(classes)} classes")

    def maps(name: str) -> Array | None:
        if value.get(name, (dict, type(None)), None) is None:
            return None
        return value.child(name).array("values", (len(classes), rows * cols))

    vectors = {}
    for kind, kept in value.get("vectors", dict, {}).items():
        if text := Json(file, kept, f"vectors of `{kind}`").get("float16", str, ""):
            vectors[kind] = _float16(file, kind, text, (len(images), rows * cols))
    measures, nulls = value.child("measures"), value.child("nulls")
    measures.get("confidence", list)  # tells which images could be read
    return Evaluation(
        **{name: value.get(name, str) for name in ("dataset", "split", "probe", "head", "change", "backbone")},
        classes=classes,
        images=images,
        labels=labels,
        grid=(rows, cols),
        predicted=predicted,
        measures={name: measures.array(name, (len(images),)) for name in measures.value},
        nulls={name: band for name in nulls.value if (band := nulls.band(name))},
        positions=maps("positions"),
        weights=maps("weights"),
        vectors=vectors,
        regions=value.get("regions", (dict, type(None)), None),
        provenance=value.get("provenance", (dict, type(None)), None),
        file=Path(file).absolute(),
    )


def _float16(file: PathLike, kind: str, text: str, shape: tuple[int, int]) -> Array:
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f2").reshape(shape)
    except (binascii.Error, ValueError) as error:
        raise FileError(file, f"vectors of `{kind}`", str(error), f"float16 in base64, {list(shape)}") from None


@dataclass(frozen=True, eq=False)
class Run:
    """A training run (`ssmprobe train`), finished or not. Heads are named as in `results`; M test images, C classes."""

    folder: Path
    manifest: Mapping[str, Any]
    """`run.json`: what was trained on what, and how."""
    results: Table
    """head, seed, best and last (accuracy in percent), best_epoch (from 1), parameters, seconds: once a seed is done; and the
    layer and peak learning rate of the head, which `results.csv` has in its name alone."""
    metrics: Table
    """head, seed, epoch (from 1), loss, and accuracies in percent on train, select and test: a row an epoch."""
    steps: Table
    """The same within epochs, with `step`, the training steps so far: a row an evaluation of `train --evaluate-every`."""
    classes: tuple[str, ...]
    """Names of the C classes, in the order of the probes' logits."""
    images: tuple[str, ...]
    """Names of the test images."""
    labels: Array
    """[M]: the class of every test image, as its place in `classes`."""
    predictions: Mapping[tuple[str, int], Mapping[str, Array]]
    """By head and seed: `best` and `last`, [M] places in `classes` each (empty where no epoch was finished)."""
    losses: Mapping[tuple[str, int], Array]
    """By head and seed: [epochs, parts of an epoch] mean training loss, NaN where it is not known."""
    probes: Mapping[tuple[str, int, str], Path]
    """By head, seed and `best` or `last`: the probe's file."""
    failures: Mapping[tuple[str, int], str]
    """By head and seed: why its training stopped early, of those whose did; their results are of the epochs before."""
    evaluation: Mapping[str, Any] | None
    """`evaluation.json`, what `eval --run` found: `probes` and `anchors` (docs/definitions.md, section 8)."""

    def __repr__(self) -> str:
        stopped = f", {len(self.failures)} stopped early" if self.failures else ""
        files = f"{counted(len(self.probes), 'probe')}{stopped}, {counted(len(self.images), 'test image')}"
        return f"Run in {self.folder}: {files}, results: {self.results!r}"

    def svg(self, figure: str, *flags: Word) -> str:
        """One of its figures as the program draws it, as of a trace: `run.svg("training", "--heads", "gap")`."""
        return svg("run", self.folder, figure, *flags)


def read_run(folder: PathLike) -> Run:
    """Reads the folder of a run, finished or not."""
    folder = Path(folder).absolute()
    if (folder / "tasks" / "plan.json").is_file() and not (folder / "run.json").is_file():
        remedy = "`ssmprobe jobs` shows its tasks until they are joined, and where their runs are"
        raise FileError(folder / "run.json", "the file", "absent", f"a run; {remedy}")
    manifest = read_json(folder / "run.json")
    format_of(manifest, 1)
    rows = []
    if (folder / "metrics.jsonl").is_file():
        lines = enumerate(read_text(folder / "metrics.jsonl").splitlines(), start=1)
        rows = [read_json(f"{folder / 'metrics.jsonl'}:{number}", line) for number, line in lines]

    def evaluations(names: tuple[str, ...], within: bool) -> Table:
        own = [row for row in rows if ("step" in row.value) == within]
        kinds = {"head": str} | dict.fromkeys(names[1:], (int, float, type(None)))
        return table([{name: row.get(name, kinds[name]) for name in names} for row in own], names, ("head",))

    file = folder / "results.csv"
    columns = ("head", "seed", "best", "last", "best_epoch", "parameters", "seconds")
    truth = read_json(folder / "answers" / "truth.json")
    evaluation = folder / "evaluation.json"
    images = truth.texts("images")
    predictions, probes, failures = {}, {}, {}
    losses: dict[tuple[str, int], Array] = {}
    variants = [Json(manifest.path, variant, "`heads`") for variant in manifest.get("heads", list)]
    heads = {variant.get("name", str): variant for variant in variants}
    results = read_csv(file, ("head",)) if file.is_file() else table([], columns, ("head",))
    # A head has the run's layer and rate unless it has its own. After the run's layer may stand how its tokens are taken.
    layer, _, _ = manifest.child("tokens").get("layer", str).partition(",")
    rate = manifest.child("protocol").get("rate", (int, float))
    axes = {
        name: {"layer": head.get("layer", str, layer), "rate": head.get("rate", (int, float), rate)}
        for name, head in heads.items()
    }
    results = Table(results | table([axes.get(head, {}) for head in results["head"]], ("layer", "rate"), ("layer",)))
    for seed in manifest.get("seeds", list):
        losses |= _losses(folder / "losses" / f"s{seed}.safetensors", seed)
        for head in heads:
            answers = folder / "answers" / f"{head}-s{seed}.json"
            if answers.is_file():
                found = read_json(answers)
                predictions[head, seed] = {which: found.array(which, dtype="i8") for which in ("best", "last")}
                if why := found.get("failure", (str, type(None)), None):
                    failures[head, seed] = why
            for which in ("best", "last"):
                probe = folder / "probes" / f"{head}-s{seed}-{which}.safetensors"
                if probe.is_file():
                    probes[head, seed, which] = probe
    return Run(
        folder,
        manifest.value,
        results,
        evaluations(("head", "seed", "epoch", "loss", "train", "select", "test"), within=False),
        evaluations(("head", "seed", "epoch", "step", "loss", "train", "select", "test"), within=True),
        manifest.child("dataset").texts("classes"),
        images,
        truth.array("classes", (len(images),), "i8"),
        predictions,
        losses,
        probes,
        failures,
        read_json(evaluation).value if evaluation.is_file() else None,
    )


def _losses(file: Path, seed: int) -> dict[tuple[str, int], Array]:
    if not file.is_file():
        return {}
    tensors, metadata = read_safetensors(file)
    header = read_json(file, metadata.get("ssmprobe-losses", "null"))
    format_of(header, 1)
    losses: dict[tuple[str, int], Array] = {}
    parts = header.get("parts", int)
    if not 1 <= parts <= PARTS:
        raise FileError(file, "`parts`", parts, f"a whole number from 1 to {PARTS}")
    for name, values in tensors.items():
        if values.ndim != 1:
            raise FileError(file, f"`{name}`", list(values.shape), "one axis")
        # A training that was stopped, or a head whose loss is no number any more, ends within an epoch.
        losses[name, seed] = np.append(values, np.full(-values.size % parts, np.nan, "f4")).reshape(-1, parts)
    return losses


def _map(
    folder: Path, images: int, grid: tuple[int, int], width: int, has_cls: bool, index: int
) -> tuple[dict[str, Array], Array]:
    """The tensors of a shard of a token cache, and which of its images could be read."""
    file = folder / f"tokens-{index:06}.safetensors"
    count = min(SHARD, images - index * SHARD)
    tensors, metadata = read_safetensors(file)
    expected: dict[str, tuple[int, ...]] = {"patches": (count, grid[0] * grid[1], width)}
    expected |= {"cls": (count, width)} if has_cls else {}
    for name, shape in expected.items():
        found = tensors[name].shape if name in tensors else "absent"
        if found != shape:
            raise FileError(file, f"`{name}`", found, f"{list(shape)}; `ssmprobe extract` makes it again")
    skipped = read_json(file, f'{{"skipped": {metadata.get("skipped", "[]")}}}').array("skipped", dtype="i8")
    return tensors, ~np.isin(np.arange(count), skipped)


class Tokens:
    """The tokens of a dataset as a cache keeps them, mapped and not read: M images of N patch tokens of width d."""

    def __init__(self, folder: PathLike) -> None:
        self._folder = Path(folder).absolute()
        manifest = read_json(self._folder / "manifest.json")
        format_of(manifest, 1, default=1)
        self.grid: tuple[int, int] = manifest.grid()
        """Rows and columns of the patches."""
        self.width: int = manifest.count("width", 1)
        """d."""
        self.source: Mapping[str, str] = manifest.child("source").value
        """What the tokens depend on: weights, preprocessing, dataset, layer, precision."""
        self._images: int = manifest.count("images")
        self._has_cls: bool = manifest.get("has_cls", bool)
        # Not a method: the cycle would keep the files open until it is collected.
        map_shard = partial(_map, self._folder, self._images, self.grid, self.width, self._has_cls)
        self._shard = lru_cache(MAPPED)(map_shard)
        readable = [map_shard(index)[1] for index in range(-(-self._images // SHARD))]
        self.readable: Array = np.concatenate([np.ones(0, dtype=bool), *readable])
        """[M]: whether the image could be read; the tokens of one that could not are 0."""

    def __reduce__(self) -> tuple[type[Tokens], tuple[Path]]:
        return Tokens, (self._folder,)  # another process maps the files again, and gets no copy of all tokens

    def __repr__(self) -> str:
        each = f"{self.grid[0]} x {self.grid[1]} of width {self.width}"
        return f"Tokens of {counted(len(self), 'image')}: {each}, in {self._folder}"

    def __len__(self) -> int:
        return self._images

    def patches(self, image: SupportsIndex) -> Array:
        """[N, d] patch tokens of an image, row by row, in the precision they are kept in, read-only."""
        shard, place = divmod(self._index(image), SHARD)
        return np.asarray(self._shard(shard)[0]["patches"][place])

    def cls(self, image: SupportsIndex) -> Array | None:
        """[d] CLS token of an image; absent where the backbone has none."""
        shard, place = divmod(self._index(image), SHARD)
        return self._shard(shard)[0]["cls"][place] if self._has_cls else None

    def _index(self, image: SupportsIndex) -> int:
        place = operator.index(image)
        if not -self._images <= place < self._images:
            raise IndexError(f"image {place} of {self._images}")
        return place % self._images


def tokens(cache: PathLike) -> Tokens:
    """Opens a token cache: its own folder, which `ssmprobe extract` names, or that of all (`--cache`) if there is but one.

    Image i is row i of `ssmprobe dataset DATA --list`, which says its class and split, unless images were added or removed
    since; `read_csv` reads it.
    """
    if not Path(cache, "manifest.json").is_file():
        caches = [file.parent for file in Path(cache).glob("*/manifest.json")]
        if len(caches) != 1:
            one = "1, or the folder of one, which `ssmprobe extract` names"
            raise FileError(cache, "the number of token caches", len(caches), one)
        cache = caches[0]
    return Tokens(cache)
