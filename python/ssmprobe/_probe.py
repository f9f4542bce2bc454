"""Probe files (docs/definitions.md, section 8), and what a probe makes of tokens, in float64 NumPy."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from . import _heads
from ._files import Array, FileError, Json, PathLike, format_of, read_json, read_safetensors, write_safetensors
from ._heads import HEADS, Floats, Orders, Output

MAX_PROBE_BYTES = 4 << 30
"""Largest probe file that is read."""
FORMAT = 1


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

    def __repr__(self) -> str:
        return f"Probe {self.head} of hidden size {self.backbone.get('hidden_size')} for {len(self.classes)} classes"

    def __call__(
        self,
        patches: ArrayLike,
        cls: ArrayLike | None = None,
        grid: tuple[int, int] | None = None,
        orders: Sequence[Sequence[int]] | Orders | None = None,
    ) -> Output:
        """Reads one image.

        `patches` [N, d] are its patch tokens row by row, `cls` [d] its CLS token, `grid` the rows and columns of the
        patches (a square unless given). `orders` [directions, N] are what a fixed order reads instead of its own;
        `random-dynamic`, `hilbert` and `spiral` need them (`inspect` writes them).
        """
        tokens = np.asarray(patches, dtype="f8")
        d = int(self.backbone["hidden_size"])
        if tokens.ndim != 2 or tokens.shape[1] != d or not len(tokens):
            raise ValueError(f"patches are {list(tokens.shape)}, expected [N, {d}] as the probe's backbone has them")
        if grid is None:
            side = math.isqrt(len(tokens))
            grid = (side, side) if side * side == len(tokens) else (1, len(tokens))
            if grid[0] == 1 and len(tokens) > 1 and self.head in ("vmamba", "snake", "diagonal") and orders is None:
                raise ValueError(f"grid is None and {len(tokens)} patches are no square, expected rows and columns")
        if grid[0] * grid[1] != len(tokens):
            raise ValueError(f"grid is {grid[0]} x {grid[1]}, expected {len(tokens)} patches")
        token = None if cls is None else np.asarray(cls, dtype="f8")
        if token is not None and token.shape != (d,):
            raise ValueError(f"cls is {list(token.shape)}, expected [{d}]")
        return _heads.read(self.head, self.config, self.tensors, tokens, token, grid, orders)

    def evidence(self, output: Output, label: int | str) -> Floats:
        """[N]: what every token adds to the logit of a class (its index or name), exact. Of heads that are not linear in
        their tokens there is none."""
        if output.token_values is None:
            raise ValueError(f"the head `{self.head}` has no exact evidence by token here")
        weight = self.tensors["classifier.weight"]
        row = self.classes.index(label) if label in self.classes else label
        if isinstance(row, str) or not -len(weight) <= row < len(weight):
            known = f", one of {', '.join(self.classes)}" if self.classes else ""
            raise ValueError(f"label is {label!r}, expected an index below {len(weight)}{known}")
        return np.asarray(output.token_values @ weight[row])

    def save(self, path: PathLike) -> None:
        """Writes it as a probe file."""
        save_probe(path, self.head, self.tensors, **self._description())

    def _description(self) -> dict[str, Any]:
        return {"classes": self.classes, "config": self.config, "backbone": self.backbone, "training": self.training}


def save_probe(
    path: PathLike,
    head: str,
    tensors: Mapping[str, Any] | HasState,
    *,
    classes: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
    backbone: Mapping[str, Any] | None = None,
    training: Any = None,
) -> None:
    """Writes a probe file that the program opens.

    `tensors` are arrays, PyTorch tensors or a `torch.nn.Module` whose `state_dict` has the names of the file
    (`classifier.weight` [C, F], `scorer.weight` [1, d], ...): effective values, `s4.0.A` lower triangular with a negative
    diagonal, `s4.0.dt` from 1e-3 to 1e-1. `classes` names the C classes, `config` the head's settings, and `backbone` whose
    tokens it reads; its `hidden_size` follows from the tensors where they say it. What does not fit the head is an error
    before anything is written.
    """
    given = tensors.state_dict() if isinstance(tensors, HasState) else tensors
    arrays: dict[str, Array] = {}
    for name, values in given.items():
        on_host = values.detach().cpu() if hasattr(values, "detach") else values
        array = np.asarray(on_host.float() if hasattr(on_host, "bfloat16") and name != "order" else on_host)
        arrays[name] = array if array.dtype.kind in "iu" else array.astype("f4")  # as the file will have it
    meta: dict[str, Any] = {
        "format": FORMAT,
        "head": head,
        "config": dict(config or {}),
        "backbone": dict(backbone or {}),
    }
    found = meta["backbone"].setdefault("hidden_size", _width(head, meta["config"], arrays))
    if found is None:
        raise FileError(path, "`hidden_size` of `backbone`", "absent", "d, which the tensors of this head do not say")
    meta |= {"classes": list(classes)} | ({} if training is None else {"training": training})
    _check(path, meta, arrays)
    write_safetensors(path, arrays, {"ssmprobe": json.dumps(meta, ensure_ascii=False)})


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
        "config": meta.get("config", dict, {}),
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
    for name in ("iterations", "state_dim", "k", "heads", "queries", "width", "power", "blocks"):
        if name in config.value and config.get(name, int) < 1:
            raise FileError(path, f"`{name}` of `config`", config.value[name], "a whole number from 1")
    if config.value.get("sharing", "shared") not in ("shared", "channel"):
        raise FileError(path, "`sharing` of `config`", repr(config.value["sharing"]), "shared or channel")
    rule = config.value.get("discretization", "bilinear")
    if rule not in ("bilinear", "zoh"):
        raise FileError(path, "`discretization` of `config`", repr(rule), "bilinear or zoh")
    if config.value.get("norm", "none") not in ("batch", "none"):
        raise FileError(path, "`norm` of `config`", repr(config.value["norm"]), "batch or none")
    if config.value.get("self_attention", "none") not in ("none", "map", "both"):
        raise FileError(path, "`self_attention` of `config`", repr(config.value["self_attention"]), "none, map or both")
    if not isinstance(config.value.get("gate", False), bool):
        raise FileError(path, "`gate` of `config`", repr(config.value["gate"]), "true or false")
    temperature = config.get("temperature", (int, float), 1)
    if not (math.isfinite(temperature) and temperature > 0):
        raise FileError(path, "`temperature` of `config`", temperature, "a number above 0")
    Json(path, meta, "the description").texts("classes")
    backbone = Json(path, meta["backbone"], "`backbone`")
    width = backbone.get("hidden_size", int)
    for name in ("id", "model_type"):
        backbone.get(name, str, "")
    for name, wide in (("heads", width), ("queries", config.value.get("width", width)), ("blocks", width)):
        if width < 1 or wide % config.value.get(name, 1):
            what = "`hidden_size` of `backbone`" if wide == width else "`width` of `config`"
            raise FileError(path, what, wide, f"a multiple of {config.value.get(name, 1)}")
    weight = tensors.get("classifier.weight")
    rows = len(weight) if weight is not None and weight.ndim else 0
    expected = _heads.shapes(head, config.value, width, len(meta["classes"]) or rows)
    problems = [f"`{name}` {list(shape)} is missing" for name, shape in expected.items() if name not in tensors]
    problems += [f"`{name}` is unused" for name in tensors if name not in expected]
    for name in expected.keys() & tensors.keys():
        found, shape = tensors[name].shape, expected[name]
        if len(found) != len(shape) or any(want not in (-1, have) for have, want in zip(found, shape, strict=True)):
            problems.append(f"`{name}` is {list(found)}, expected {list(shape)}")
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
