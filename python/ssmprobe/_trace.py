"""What one image looked like through one probe: `inspect` writes it, figures are drawn of it."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ._files import Array, FileError, Json, PathLike, Table, counted, format_of, of_kind, read_csv, read_json, read_npz
from ._program import ProgramError, Word, figures, svg

SHOWN = ("photo", "token_map", "scan_path", "evidence")
"""Figures that a notebook shows: picture, weights, order, evidence."""
_TEXT = ("image", "probe", "image_name", "probe_name", "head", "predicted_name", "class_name", "reading")


@dataclass(frozen=True)
class Prediction:
    """One class: its index, name, logit, and softmax probability from 0 to 1."""

    index: int
    name: str
    logit: float
    probability: float


@dataclass(frozen=True)
class Diagnostic:
    """One measure of a plan (docs/definitions.md, section 5) beside what chance gives; bands are 5th to 95th percentiles."""

    value: float
    null: tuple[float, float] | None
    """Of random scores through the same router."""
    untrained: float | None
    """Of one untrained scorer on the same image."""
    untrained_band: tuple[float, float] | None
    """Of untrained scorers on the same image."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What speaks for one class, in units of the logit; exact evidence sums, with the bias, to the logit."""

    label: int
    """Index of the class."""
    bias: float
    """What no token says."""
    why_none: str | None
    """Why there is no exact evidence, where there is none."""
    token: Array | None
    """[N], exact, by token; absent of heads that are not linear in their tokens."""
    position: Array | None
    """[N], exact, by position."""
    position_raster: Array | None
    """[N]: the same memory without its router."""
    proxy: Array | None
    """[N]: the paper's proxy; it does not sum to the logit."""
    proxy_raster: Array | None
    """[N]: the proxy in raster order."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything one image showed through one probe. N patch tokens lie row by row over a grid; C classes.

    In a notebook it shows itself: picture, token weights, order and evidence, as `ssmprobe figures` draws them.
    """

    image: str
    """The image's file, as it was named."""
    probe: str
    """The probe's file, as it was named."""
    head: str
    """Id of the head."""
    backbone: str
    """Name of the backbone."""
    reading: Any
    """What was changed in how the probe read, and the class whose evidence was asked for: words, or an object as a trace file
    has it; "as trained" for nothing."""
    grid: tuple[int, int]
    """Rows and columns of the patches."""
    predictions: tuple[Prediction, ...]
    """The most probable classes, the best first."""
    logits: Array
    """[C], in the order of the probe's classes, which `load_probe(...).classes` names."""
    evidence: Evidence
    """For one class, the predicted one unless another was asked for."""
    diagnostics: Mapping[str, Diagnostic]
    """By name; empty of heads without a router."""
    order_test: Mapping[str, Any] | None
    """Whether the order matters (docs/definitions.md, section 10): `logit` and `margin`, or `none` and why."""
    scores: Array | None = None
    """[N]: standardised scores."""
    plan: Array | None = None
    """[N, N]: share of token i at position k."""
    orders: Array | None = None
    """[directions, N]: the token that is read at every step, of fixed orders."""
    kernels: Array | None = None
    """[directions, N] or [directions, N, d]: what is left of a token j steps later."""
    radius: float | None = None
    """Spectral radius of the transition, of the first direction."""
    token_weight: Array | None = None
    """[N]: what every token counts."""
    attributions: Mapping[str, Array] = field(default_factory=dict)
    """[N] each: `gradient`, `integrated`, `rollout`, as far as they were asked for."""
    removal: Mapping[str, Array] = field(default_factory=dict)
    """Removal curves, of `inspect --causal`, by their names in docs/definitions.md, section 12. They, stability and regions
    are in the folder of `inspect`, and not in a trace file."""
    stability: Mapping[str, Any] | None = None
    """How stable the order is, of `inspect --stability`: `groups` of changes with their `taus`, and `null` (section 8)."""
    regions: Mapping[str, Any] | None = None
    """How marked regions are read, of `inspect --masks`: `object`, `list` and `precedence` (section 15)."""
    tokens: Array | None = None
    """[N, d], of `inspect --save-tokens`."""
    cls: Array | None = None
    """[d], of `inspect --save-tokens`."""
    picture: Array | None = None
    """[height, width, 3], uint8: what the backbone saw; from a trace file."""
    file: Path | None = None
    """The trace file that figures are drawn of; absent where there is none."""

    def __repr__(self) -> str:
        best = self.predictions[0] if self.predictions else None
        said = f"{best.name} ({best.probability:.1%})" if best else "no class"
        how = f"changed: {', '.join(self.reading)}" if isinstance(self.reading, Mapping) else self.reading
        how = "" if how == "as trained" else f"; {how}"
        return f"{Path(self.image).name} through {Path(self.probe).name}: {said}{how}"

    def svg(self, figure: str, *flags: Word) -> str:
        """One of its figures as the program draws it, for `IPython.display.SVG` or a file.

        `ssmprobe figures --list` names them; `flags` are further ones of that command: on a dark page
        `trace.svg("assignment", "--theme", "dark")`.
        """
        if self.file is None:
            raise ValueError(f"{self} has no trace file: `inspect --save-traces` keeps what figures are drawn of")
        return svg("trace", self.file, figure, *flags)

    def _repr_html_(self) -> str:
        title = html.escape(repr(self))
        if self.file is None:
            return f"<p>{title}</p><p>No figures: `inspect --save-traces` keeps what they are drawn of.</p>"
        try:
            drawn = figures("trace", self.file, "all")
        except (OSError, ProgramError) as error:
            return f"<p>{title}</p><p>No figures: {html.escape(str(error))}</p>"
        images = "".join(
            f'<img alt="{html.escape(f"{name} of {self}")}" style="max-width: 100%; background: white" '
            f'src="data:image/svg+xml;base64,{base64.b64encode(drawn[f"f-{name}"]).decode()}"/>'
            for name in SHOWN
            if f"f-{name}" in drawn
        )
        return f"<figure><figcaption>{title}</figcaption>{images}</figure>"


@dataclass(frozen=True, eq=False)
class Inspection:
    """What `ssmprobe inspect` wrote to a folder."""

    summary: Table
    """`summary.csv`: one row for every image and probe, diagnostics and their bands as columns."""
    traces: Mapping[tuple[str, str], Trace]
    """By the names of image and probe, as files and `summary` (`image_name`, `probe_name`) have them. Each is read when it is
    asked for, and not kept: a plan has N * N numbers."""

    def __repr__(self) -> str:
        return f"Inspection of {counted(len(self.traces), 'trace')}; summary: {self.summary!r}"


class _Traces(Mapping[tuple[str, str], Trace]):
    def __init__(self, folder: Path, names: Iterable[tuple[str, str]]) -> None:
        self._folder, self._names = folder, dict.fromkeys(names)

    def __getitem__(self, name: tuple[str, str]) -> Trace:
        if name not in self._names:
            raise KeyError(f"{self._folder / 'summary.csv'} has no image and probe {name}; it has {[*self._names][:3]} ...")
        return _read_pair(self._folder / name[0], name[1])

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_inspect(folder: PathLike) -> Inspection:
    """Reads the folder that `ssmprobe inspect --out` wrote."""
    folder = Path(folder).absolute()  # traces are read later, maybe from another working folder
    summary = read_csv(folder / "summary.csv", _TEXT)
    for name in ("image_name", "probe_name"):
        if name not in summary:
            raise FileError(folder / "summary.csv", f"the column `{name}`", "absent", "names of files, as inspect writes them")
    return Inspection(summary, _Traces(folder, zip(summary["image_name"], summary["probe_name"], strict=True)))


def _read_pair(folder: Path, probe: str) -> Trace:
    verdict, arrays = read_json(folder / f"{probe}.json"), read_npz(folder / f"{probe}.npz")
    label, kernel = verdict.child("class"), arrays.get("kernel")
    if "logits" not in arrays:
        raise FileError(folder / f"{probe}.npz", "`logits`", "absent", "an array [C]")
    trace, removal, stability = (folder / f"{probe}.{kind}" for kind in ("trace.json", "causal.npz", "stability.json"))
    stable = read_json(stability) if stability.is_file() else None
    if stable is not None:
        format_of(stable, 1, default=1)
    evidence = Evidence(
        label.get("index", int),
        verdict.get("bias", (float, int)),
        verdict.get("why_no_exact_evidence", (str, type(None)), None),
        *(arrays.get(f"evidence_{name}") for name in ("token", "position", "position_raster", "proxy", "proxy_raster")),
    )
    return Trace(
        **_common(verdict, "prediction"),
        reading=verdict.get("reading", default="as trained"),
        logits=arrays["logits"],
        evidence=evidence,
        scores=arrays.get("scores"),
        plan=arrays.get("plan"),
        orders=_as_integers(arrays.get("orders")),
        kernels=arrays.get("kernels", None if kernel is None else kernel[None]),
        token_weight=arrays.get("token_weight"),
        attributions={name: arrays[name] for name in ("gradient", "integrated", "rollout") if name in arrays},
        removal=read_npz(removal) if removal.is_file() else {},
        stability=None if stable is None else stable.value,
        regions=verdict.get("regions", (dict, type(None)), None),
        tokens=arrays.get("tokens"),
        cls=arrays.get("cls"),
        file=trace if trace.is_file() else None,
    )


def read_trace(file: PathLike) -> Trace:
    """Reads a trace file (`inspect --save-traces`, or exported by the window)."""
    trace = read_json(file)
    of_kind(trace, "seen", "what `inspect --save-traces` writes: <probe>.trace.json")
    format_of(trace, 1, default=1)
    common = _common(trace, "top")
    n = common["grid"][0] * common["grid"][1]

    def vector(value: Json, name: str) -> Array | None:
        return None if value.get(name, (list, type(None)), None) is None else value.array(name, (n,))

    def matrix(value: Json) -> Array:
        return value.array("data", (value.count("rows"), value.count("cols")))

    routing, seen, found = trace.get("routing", (str, dict)), trace.child("seen"), trace.child("evidence")
    orders = plan = None
    if isinstance(routing, dict) and "plan" in routing:
        plan = matrix(trace.child("routing").child("plan"))
    elif isinstance(routing, dict):
        orders = trace.child("routing").array("orders", (-1, n), "i8")
    first = trace.get("kernel", (dict, type(None)))
    further = trace.get("other_kernels", list, [])
    kernels = [matrix(Json(file, kernel, "a kernel")) for kernel in ([] if first is None else [first, *further])]
    if kernels and all(kernel.shape[1] == 1 for kernel in kernels):
        kernels = [kernel[:, 0] for kernel in kernels]
    if len({kernel.shape for kernel in kernels}) > 1:
        raise FileError(file, "`other_kernels`", [kernel.shape for kernel in kernels], "kernels of one shape")
    evidence = Evidence(
        found.get("class", int),
        found.get("bias", (float, int)),
        found.get("why_none", (str, type(None)), None),
        *(vector(found, name) for name in ("token", "position", "position_raster", "proxy", "proxy_raster")),
    )
    attributed = trace.get("attributions", dict, {})
    tokens = {name: Json(file, value, name).get("token", (list, type(None)), None) for name, value in attributed.items()}
    return Trace(
        **common,
        reading=trace.get("reading", default="as trained"),
        logits=trace.array("logits"),
        evidence=evidence,
        scores=vector(trace, "scores"),
        plan=plan,
        orders=orders,
        kernels=np.stack(kernels) if kernels else None,
        token_weight=vector(trace, "token_weight"),
        attributions={name: trace.array(name, (n,), value=value) for name, value in tokens.items() if value is not None},
        picture=seen.array("rgb", (seen.count("height"), seen.count("width"), 3), "u1"),
        file=Path(file).absolute(),
    )


def _common(value: Json, predictions: str) -> dict[str, Any]:
    """What a trace and the JSON of `inspect` both have."""
    diagnostics = {}
    for name, found in value.get("diagnostics", dict, {}).items():
        entry = Json(value.path, found, f"diagnostic `{name}`")
        untrained = entry.get("untrained", (float, int, type(None)), None)
        bands = entry.band("untrained_band")
        diagnostics[name] = Diagnostic(entry.get("value", (float, int)), entry.band("null"), untrained, bands)
    radius = value.get("radius", (float, int, type(None)), None)
    best = [Json(value.path, found, "a prediction") for found in value.get(predictions, list)]
    return {
        "image": value.get("image", str),
        "probe": value.get("probe", str),
        "head": value.get("head", str),
        "backbone": value.get("backbone", str),
        "grid": value.grid(),
        "predictions": tuple(
            Prediction(
                p.get("index", int),
                p.get("name", str),
                p.get("logit", (float, int)),
                p.get("probability", (float, int)),
            )
            for p in best
        ),
        "diagnostics": diagnostics,
        "order_test": value.get("order_test", (dict, type(None)), None),
        "radius": None if radius is None else float(radius),
    }


def _as_integers(values: Array | None) -> Array | None:
    return None if values is None else values.astype("i8")
