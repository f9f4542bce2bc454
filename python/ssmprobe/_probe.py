"""Probe files (docs/definitions.md, section 8), and what a probe makes of tokens, in float64 NumPy."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from . import _heads
from ._files import Array, FileError, Json, PathLike, format_of, read_json, read_safetensors, write_safetensors
from ._heads import HEADS, Floats, Output

MAX_PROBE_BYTES = 4 << 30
"""Largest probe file that is read."""
MAX_WIDTH = 262_144
"""Largest hidden size."""
FORMAT = 1

# Settings of heads and what they may be, as the program has it.
_WHOLE = {"iterations": (1, 10_000), "state_dim": (1, 1024), "power": (1, 2), "width": (1, MAX_WIDTH)}
_WHOLE |= dict.fromkeys(("k", "heads", "queries", "blocks"), (1, (1 << 64) - 1)) | {"seed": (0, (1 << 64) - 1)}
_REAL = {"temperature": (1e-4, 1e4), "gamma": (1e-3, 1e3)}
_WORDS: dict[str, tuple[str, ...]] = {"sharing": ("shared", "channel"), "discretization": ("bilinear", "zoh")}
_WORDS |= {"norm": ("none", "batch"), "self_attention": ("none", "map", "both")}
SETTINGS = (*_REAL, *_WHOLE, *_WORDS, "gate", "order")
"""Names of all settings."""


@runtime_checkable
class HasState(Protocol):
    """A `torch.nn.Module`, or anything else with a `state_dict` of tensors."""

    def state_dict(self) -> Mapping[str, Any]:
        """Tensors by name."""


@dataclass(frozen=True, eq=False)
class Probe:
    """One head with its parameters and its classifier. d is the backbone's hidden size, C the number of classes."""

    head: str
    """Id of the head, one of `HEADS`."""
    config: Mapping[str, Any]
    """Its settings; what is not in it is the head's default."""
    tensors: Mapping[str, Floats]
    """Effective values by PyTorch's names, float64."""
    classes: tuple[str, ...] = ()
    """Names of the classes; empty where only numbers are known."""
    backbone: Mapping[str, Any] = field(default_factory=dict)
    """`id`, `model_type`, `hidden_size`, and `fingerprint` and `config` where they are known."""
    training: Any = None
    """How it was trained, as its trainer wrote it."""
    rest: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the file's description says, kept as found."""

    def __repr__(self) -> str:
        classes = len(self.classes) or len(self.tensors.get("classifier.bias", ()))
        return f"Probe {self.head} of hidden size {self.backbone.get('hidden_size')} for {classes} classes"

    def __call__(
        self,
        patches: ArrayLike,
        cls: ArrayLike | None = None,
        grid: tuple[int, int] | None = None,
        orders: ArrayLike | None = None,
    ) -> Output:
        """Reads one image.

        `patches` [N, d] are its patch tokens row by row, `cls` [d] its CLS token, `grid` the rows and columns of the patches (a
        square unless given). `orders` [directions, N] are read instead of the head's own, fixed or learned, as by
        `inspect --reading order=FILE`; `random-dynamic`, `hilbert` and `spiral` need them (`inspect` writes them). PyTorch
        tensors will do.
        """
        tokens = np.asarray(on_host(patches), dtype="f8")
        d = int(self.backbone["hidden_size"])
        if tokens.ndim != 2 or tokens.shape[1] != d or not len(tokens):
            raise ValueError(f"patches are {list(tokens.shape)}, expected [N, {d}] as the probe's backbone has them")
        if grid is None:
            side = math.isqrt(len(tokens))
            grid = (side, side)
            if side * side != len(tokens):
                what = "expected rows and columns, and no CLS or register tokens among the patches"
                raise ValueError(f"grid is None and {len(tokens)} patches are no square, {what}")
        if grid[0] * grid[1] != len(tokens):
            raise ValueError(f"grid is {grid[0]} x {grid[1]}, expected {len(tokens)} patches")
        token = None if cls is None else np.asarray(on_host(cls), dtype="f8")
        if token is not None and token.shape != (d,):
            raise ValueError(f"cls is {list(token.shape)}, expected [{d}]")
        given = None if orders is None else on_host(orders)
        return _heads.read(self.head, self.config, self.tensors, tokens, token, grid, given)

    def evidence(self, output: Output, label: int | str) -> Floats:
        """[N]: what every token adds to the logit of a class (its index, name or WordNet id), exact. Of heads that are not
        linear in their tokens there is none."""
        if output.token_values is None:
            raise ValueError(f"the head `{self.head}` has no exact evidence by token here")
        weight = self.tensors["classifier.weight"]
        if self.classes.count(label) > 1:
            raise ValueError(f"label is {label!r}, the name of several classes; give the index of one")
        row = self.classes.index(label) if label in self.classes else label
        if isinstance(row, str) and (ids := [_class_id(name) for name in self.classes]).count(_class_id(row)) == 1:
            row = ids.index(_class_id(row))
        if isinstance(row, str) or not -len(weight) <= row < len(weight):
            known = f", one of {', '.join(self.classes)}" if self.classes else ""
            raise ValueError(f"label is {label!r}, expected an index below {len(weight)}{known}")
        return np.asarray(output.token_values @ weight[row])

    def save(self, path: PathLike) -> None:
        """Writes it as a probe file."""
        known = {"head": self.head, "config": self.config, "backbone": self.backbone, "classes": self.classes}
        _save(path, {**self.rest, **known, "training": self.training}, self.tensors)


def _class_id(name: str) -> str:
    """The WordNet id in the name of a class, `crane (n02012849)`, or any other name as it is."""
    found = re.fullmatch(r".* \((n[0-9]{8})\)", name, re.DOTALL)
    return found[1] if found else name


def save_probe(
    path: PathLike,
    head: str,
    tensors: Mapping[str, Any] | HasState,
    *,
    classes: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
    backbone: Mapping[str, Any] | PathLike | None = None,
    training: Any = None,
) -> None:
    """Writes a probe file that the program opens.

    `tensors` are arrays, PyTorch tensors or a `torch.nn.Module` whose `state_dict` has the names of the file
    (`classifier.weight` [C, F], `scorer.weight` [1, d], ...): effective values, `s4.0.A` lower triangular with a negative
    diagonal, `s4.0.dt` from 1e-3 to 1e-1. Batch normalisations have epsilon 1e-6: for another, add what it has more to
    `norm.running_var`; their `num_batches_tracked` is left out. `classes` names the C classes, `config` the head's settings,
    and `backbone` whose tokens it reads: its id, the `Path` of its folder, or all of `Probe.backbone`; its `hidden_size`
    follows from the tensors where they say it. What does not fit the head is an error before anything is written.
    """
    for name in config or {}:
        if name not in SETTINGS:  # it would be kept, and read by nobody
            raise FileError(path, "a setting in `config`", repr(name), "one of " + ", ".join(SETTINGS))
    if isinstance(classes, (str, set, frozenset)):  # letters, or names in any order, would be taken for the classes
        what = "a list of texts, in the order of the classifier's rows"
        raise FileError(path, "`classes` of the description", f"a {type(classes).__name__}", what)
    given = tensors.state_dict() if isinstance(tensors, HasState) else tensors
    if isinstance(backbone, (str, os.PathLike)):  # a folder has its name as id, as in a training
        backbone = {"id": backbone if isinstance(backbone, str) else Path(backbone).name}
    backbone = backbone or {}
    known = {"head": head, "config": config or {}, "backbone": backbone, "classes": classes, "training": training}
    _save(path, known, {name: values for name, values in given.items() if not name.endswith("num_batches_tracked")})


def _save(path: PathLike, known: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    arrays: dict[str, Array] = {}
    for name, values in tensors.items():
        array = on_host(values)
        if np.iscomplexobj(array):
            raise FileError(path, f"the type of `{name}`", array.dtype, "real numbers: effective values")
        arrays[name] = array if array.dtype.kind in "iu" else array.astype("f4")  # as the file will have it
    config = _settings(known["config"])
    meta: dict[str, Any] = {"format": FORMAT, **known, "config": config, "backbone": dict(known["backbone"])}
    meta["classes"] = list(known["classes"])
    meta["backbone"].setdefault("hidden_size", _width(meta["head"], meta["config"], arrays))
    if known["training"] is None:
        del meta["training"]
    _check(path, meta, arrays)
    try:
        text = json.dumps(meta, ensure_ascii=False, allow_nan=False, default=_plain)
        text.encode()
    except (TypeError, ValueError) as error:
        raise FileError(path, "the description", f"no JSON ({error})", "words, finite numbers, lists and dicts") from None
    write_safetensors(path, arrays, {"ssmprobe": text})


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a file has them: `None` stands for the head's default, as it does to the program."""
    return {name: _plain(v) if isinstance(v, np.generic) else v for name, v in config.items() if v is not None}


def _plain(value: Any) -> Any:
    """Numbers of NumPy as those of Python."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is none of JSON's types")


def on_host(values: Any) -> Array:
    """A PyTorch tensor, wherever it lies, or what else makes an array; bfloat16, which NumPy lacks, as float32."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if "bfloat16" in str(getattr(values, "dtype", "")) else values
    return np.asarray(values)


def load_probe(path: PathLike) -> Probe:
    """Reads a probe file, strictly: missing, unused and misshapen tensors are an error, as in the program."""
    size = os.stat(path).st_size
    if size > MAX_PROBE_BYTES:
        raise FileError(path, "its size", f"{size} bytes", f"at most {MAX_PROBE_BYTES}")
    tensors, metadata = read_safetensors(path)
    if "ssmprobe" not in metadata:
        raise FileError(path, "the metadata key `ssmprobe`", "absent", "the probe's description as JSON")
    meta = read_json(path, metadata["ssmprobe"])
    format_of(meta, FORMAT)
    known = {
        "head": meta.get("head", str),
        "config": _settings(meta.get("config", dict, {})),
        "classes": meta.get("classes", list, []),
    }
    _check(path, known | {"backbone": meta.child("backbone").value}, tensors)
    return Probe(
        known["head"],
        known["config"],
        {name: values.astype("f8") for name, values in tensors.items()},
        tuple(known["classes"]),
        meta.child("backbone").value,
        meta.get("training", default=None),
        {name: value for name, value in meta.value.items() if name not in (*known, "format", "backbone", "training")},
    )


def _width(head: str, config: Mapping[str, Any], arrays: Mapping[str, Array]) -> int | None:
    """The hidden size, from the tensor of the head that has it last."""
    names = ["scorer.weight", "query", "query_tokens", "cls", "phi.0.weight", "gru.weight_ih_l0", "wq.weight"]
    names += ["attention_predictor.0.weight", "classifier.weight"]
    found = next((arrays[name] for name in names if name in arrays), None)
    if found is None or not found.ndim:
        return None
    blocks = config.get("blocks", 1) if head == "cls-mean" else 0
    return int(found.shape[-1]) * blocks // (blocks + 1) if blocks else int(found.shape[-1])


def _check(path: PathLike, meta: Mapping[str, Any], tensors: Mapping[str, Array]) -> None:
    """An error unless head, settings, classes and tensors fit together."""
    head, config = meta["head"], Json(path, meta["config"], "`config`")
    if head not in HEADS:
        raise FileError(path, "`head`", repr(head), "one of " + ", ".join(HEADS))
    for name, (least, most) in _WHOLE.items():
        if name in config.value and not least <= config.get(name, int) <= most:
            raise FileError(path, f"`{name}` of `config`", config.value[name], f"a whole number from {least} to {most}")
    for name, (low, high) in _REAL.items():
        if name in config.value and not low <= config.get(name, (int, float)) <= high:
            raise FileError(path, f"`{name}` of `config`", config.value[name], f"a number from {low:g} to {high:g}")
    for name, words in _WORDS.items():
        if config.value.get(name, words[0]) not in words:
            raise FileError(path, f"`{name}` of `config`", repr(config.value[name]), " or ".join(words))
    config.get("gate", bool, False)
    Json(path, meta, "the description").texts("classes")
    weight = tensors.get("classifier.weight")
    if weight is None or weight.ndim != 2 or not weight.size:
        found = f"absent among {', '.join(sorted(tensors)) or 'no tensors'}" if weight is None else f"{list(weight.shape)}"
        raise FileError(path, "`classifier.weight`", found, "[C, F], a row for each class")
    backbone = Json(path, meta["backbone"], "`backbone`")
    width = backbone.get("hidden_size", int)
    if not 1 <= width <= MAX_WIDTH:
        raise FileError(path, "`hidden_size` of `backbone`", width, f"a whole number from 1 to {MAX_WIDTH}")
    for name in ("id", "model_type"):
        backbone.get(name, str, "")
    for name in ("fingerprint", "config"):
        backbone.get(name, (str, type(None)), None)
    for name, wide in (("heads", width), ("queries", config.value.get("width", width)), ("blocks", width)):
        if wide % config.value.get(name, 1):
            what = "`hidden_size` of `backbone`" if wide == width else "`width` of `config`"
            raise FileError(path, what, wide, f"a multiple of {config.value.get(name, 1)}")
    expected = _heads.shapes(head, config.value, width, len(meta["classes"]) or len(weight))
    problems = [f"`{name}` {list(shape)} is missing" for name, shape in expected.items() if name not in tensors]
    problems += [f"`{name}` is unused" for name in tensors if name not in expected]
    for name in expected.keys() & tensors.keys():
        has, shape = tensors[name].shape, expected[name]
        if len(has) != len(shape) or any(want not in (-1, have) for have, want in zip(has, shape, strict=True)):
            problems.append(f"`{name}` is {list(has)}, expected {list(shape)}")
        elif not np.isfinite(tensors[name]).all():
            problems.append(f"`{name}` holds values that are not finite")
        elif name == "norm.running_var" and (tensors[name] < 0).any():
            problems.append(f"`{name}` holds negative variances")
        elif name.endswith(".A") and (np.triu(tensors[name], 1).any() or (np.diag(tensors[name]) >= 0).any()):
            problems.append(f"`{name}` is not lower triangular with a negative diagonal")
        elif name.endswith(".dt") and not 1e-3 * (1 - 1e-5) <= float(tensors[name][0]) <= 1e-1 * (1 + 1e-5):
            problems.append(f"`{name}` is {tensors[name][0]}, expected a step from 0.001 to 0.1")
        elif name == "order" and not np.array_equal(np.sort(tensors[name]), np.arange(len(tensors[name]))):
            problems.append(f"`{name}` is not a permutation of 0 to {len(tensors[name]) - 1}")
    if problems:
        what = f"tensors as a probe `{head}` of hidden size {width} has them"
        raise FileError(path, "its list of tensors", f"wrong ({'; '.join(sorted(problems))})", what)
