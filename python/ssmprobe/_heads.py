"""Heads in float64 NumPy: routers, S4 and what reads the tokens, as docs/definitions.md defines them (sections 1 to 4).

The program computes the same in Rust; the two are held together by tests. N patch tokens of width d lie row by row over
a grid; C classes, S states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._files import Array

Floats = NDArray[np.float64]
Orders = NDArray[np.int64]
Config = Mapping[str, Any]

ROUTERS = ("sinkhorn", "neuralsort", "softsort", "hard-sort", "gumbel-sinkhorn")
SCANS = {"raster": 1, "vmamba": 4, "snake": 4, "diagonal": 4, "hilbert": 2, "spiral": 2}
SCANS |= {"random-fixed": 1, "random-dynamic": 1, "order": 1}
POOLS = ("gap", "cls", "attention", "content", "topk", "cls-mean", "linear-bn")
NORMED = ("efficient", "abmilp", "simpool", "coca", "v-jepa")
"""Those that may have batch normalisation before the classifier."""
NETWORKS = ("sinkhorn-conv", "sinkhorn-gap", "transformer", "deepsets", "bi-gru")
ORDERED = SCANS | dict.fromkeys((*ROUTERS, "sinkhorn-conv", "sinkhorn-gap"), 1) | {"bi-gru": 2}
"""Those that read in an order, and their directions."""
HEADS = (*POOLS, *NORMED, *SCANS, *ROUTERS, *NETWORKS)
"""Ids of all heads."""
HIDDEN, CONV_TAPS, GRU_WIDTH = 192, 5, 128


@dataclass(frozen=True, eq=False)
class Output:
    """How a probe read one image. Logits are in units of the logit, positions count from 0, the last is read last."""

    logits: Floats
    """[C]."""
    features: Floats
    """[F]: what the classifier reads."""
    scores: Floats | None = None
    """[N]: standardised scores, of heads with a scorer."""
    plan: Floats | None = None
    """[N, N]: share of token i at position k, of heads with a router."""
    orders: Orders | None = None
    """[directions, N]: the token that is read at every step, of heads with a fixed order."""
    kernels: Floats | None = None
    """[directions, N] or [directions, N, d]: what is left of a token j steps later, of heads with an S4."""
    token_weight: Floats | None = None
    """[N], or [N, d] where channels differ: what every token counts in the features; absent where it counts no such
    numbers, or the features are not linear in the tokens."""
    token_values: Floats | None = None
    """[N, F]: what every token adds to the features; absent where they are not linear in the tokens, and of `cls`."""

    def __repr__(self) -> str:
        return "Output: " + ", ".join(f"{name} {list(v.shape)}" for name, v in vars(self).items() if v is not None)


def softmax(x: Floats, axis: int = -1) -> Floats:
    """Softmax along an axis."""
    shares = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(shares / shares.sum(axis=axis, keepdims=True))


def standardise(scores: Floats) -> Floats:
    """[N] scores less their mean, by their population deviation and 1e-6."""
    result: Floats = (scores - scores.mean()) / (scores.std() + 1e-6)
    return result


def _log_sum_exp(x: Floats, axis: int) -> Floats:
    top = x.max(axis=axis)
    result: Floats = top + np.log(np.exp(x - np.expand_dims(top, axis)).sum(axis=axis))
    return result


def sinkhorn(scores: Floats, temperature: float = 0.1, iterations: int = 20) -> Floats:
    """[N, N] plan of standardised scores: entropic transport to the positions k / (N - 1), in the log domain."""
    n = len(scores)
    log = -((scores[:, None] - np.arange(n) / max(n - 1, 1)) ** 2) / temperature
    f, g = np.zeros(n), np.zeros(n)
    for _ in range(iterations):
        f = -_log_sum_exp(log + g, 1)
        g = -_log_sum_exp(log + f[:, None], 0)
    plan: Floats = np.exp(log + f[:, None] + g)
    return plan


def neuralsort(scores: Floats, temperature: float = 1.0) -> Floats:
    """[N, N] plan: `P[i, k] = R[N - k, i]`, R the descending relaxation with ranks from 1."""
    n = len(scores)
    apart = np.abs(scores[:, None] - scores).sum(1)
    rank = n - np.arange(n)  # of position k
    return softmax(((n + 1 - 2 * rank) * scores[:, None] - apart[:, None]) / temperature, axis=0)


def softsort(scores: Floats, temperature: float = 1.0, power: int = 2) -> Floats:
    """[N, N] plan: `softmax_i(-|a_k - s_i|^p / tau)`, a the scores in ascending order."""
    return softmax(-(np.abs(np.sort(scores) - scores[:, None]) ** power) / temperature, axis=0)


def hard_sort(scores: Floats) -> Floats:
    """[N, N] plan of a stable ascending sort."""
    plan = np.zeros((len(scores), len(scores)))
    plan[np.argsort(scores, kind="stable"), np.arange(len(scores))] = 1
    return plan


def plan_of(head: str, config: Config, scores: Floats) -> Floats:
    """[N, N] plan of a head with a router, under its settings."""
    temperature = config.get("temperature")
    if head == "neuralsort":
        return neuralsort(scores, temperature or 1.0)
    if head == "softsort":
        return softsort(scores, temperature or 1.0, config.get("power", 2))
    if head == "hard-sort":
        return hard_sort(scores)
    return sinkhorn(scores, temperature or 0.1, config.get("iterations", 20))


def scan_orders(head: str, rows: int, cols: int) -> Orders | None:
    """[directions, N]: the token read at every step, of orders that follow from the grid; none of other heads."""
    cells = np.arange(rows * cols).reshape(rows, cols)

    def turning(grid: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.concatenate([row if r % 2 == 0 else row[::-1] for r, row in enumerate(grid)])

    def diagonals(grid: NDArray[np.int64]) -> NDArray[np.int64]:
        # Cells (r, c) by r + c, within one by r: a stable sort of cells that come row by row.
        return grid.ravel()[np.argsort(np.add.outer(np.arange(rows), np.arange(cols)).ravel(), kind="stable")]

    ways: dict[str, Callable[[], list[NDArray[np.int64]]]] = {
        "vmamba": lambda: [cells.ravel(), cells.T.ravel()],
        "snake": lambda: [turning(cells), turning(cells.T)],
        "diagonal": lambda: [diagonals(cells), diagonals(cells[:, ::-1])],
        "bi-gru": lambda: [cells.ravel()],
    }
    if head == "raster":
        return cells.reshape(1, -1)
    return np.stack([o for way in ways[head]() for o in (way, way[::-1])]) if head in ways else None


def _held(scaled: Floats) -> tuple[Floats, Floats]:
    """[S, S]: `exp(Z)` and `Z^-1 (exp(Z) - I)`, by a series of Z / 2^s that is doubled s times."""
    doublings = max(0, math.ceil(math.log2(max(np.abs(scaled).sum(0).max(), 1e-300) / 0.5)))
    small, eye = scaled / 2.0**doublings, np.eye(len(scaled))
    phi = eye / math.factorial(14)
    for k in range(13, 0, -1):
        phi = small @ phi + eye / math.factorial(k)
    gone = small @ phi
    for _ in range(doublings):
        phi, gone = phi + phi @ gone / 2, gone @ gone + 2 * gone
    return gone + eye, phi


def kernel(tensors: Mapping[str, Floats], config: Config, direction: int, n: int) -> Floats:
    """[n] or [n, d]: `K[j] = C Abar^j Bbar` of one direction's S4, by the bilinear step or the zero-order hold."""
    a, b, c, dt = (tensors[f"s4.{direction}.{name}"] for name in ("A", "B", "C", "dt"))
    if config.get("discretization") == "zoh":
        step, phi = _held(dt[0] * np.tril(a))
        state = phi @ (dt[0] * b)
    else:
        left = np.eye(len(a)) - dt[0] / 2 * a
        step = np.linalg.solve(left, np.eye(len(a)) + dt[0] / 2 * a)
        state = np.linalg.solve(left, dt[0] * b)  # [S] or [S, d]
    found = []
    for _ in range(n):
        found.append(c @ state if c.ndim == 1 else (c.T * state).sum(0))
        state = step @ state
    return np.stack(found)


def gain(tensors: Mapping[str, Floats], direction: int, kernel: Floats) -> Floats:
    """[N] or [N, d]: what is left at the end of a token that is read at position k, D at the last one included."""
    gains = kernel[::-1].copy()
    d = tensors[f"s4.{direction}.D"]
    gains[-1] += d if gains.ndim == 2 else d[0]
    return gains


def read(
    head: str,
    config: Config,
    tensors: Mapping[str, Floats],
    patches: Floats,
    cls: Floats | None,
    grid: tuple[int, int],
    orders: Array | None,
) -> Output:
    """Reads the patch tokens [N, d] of one image; `tensors` as the probe's file names them, with the classifier's."""
    n = len(patches)
    scores = standardise(patches @ tensors["scorer.weight"][0]) if "scorer.weight" in tensors else None
    plan = kernels = weight = values = order = None
    constant: Floats | float = 0.0
    if orders is not None or head in SCANS or head == "bi-gru":
        order = _orders_of(head, tensors, grid, orders, n)
    elif head in ORDERED:
        assert scores is not None
        plan = plan_of(head, config, scores)
    if head in ROUTERS and plan is not None:
        kernels = kernel(tensors, config, 0, n)[None]
        weight = plan @ gain(tensors, 0, kernels[0])
    elif order is not None and "s4.0.A" in tensors:
        kernels = np.stack([kernel(tensors, config, direction, n) for direction in range(len(order))])
        weight = np.zeros(kernels.shape[1:])
        for direction, way in enumerate(order):
            weight[way] += gain(tensors, direction, kernels[direction]) / len(order)
    elif head in ("gap", "linear-bn"):
        weight = np.full(n, 1 / n)
    elif head == "attention":
        weight = softmax(patches @ tensors["query"] / math.sqrt(patches.shape[1]))
    elif head == "content":
        assert scores is not None
        weight = softmax(scores)
    elif head == "topk":
        assert scores is not None
        best = np.argsort(-scores, kind="stable")[: min(config.get("k", 16), n)]
        weight = np.zeros(n)
        weight[best] = 1 / len(best)
    elif head == "sinkhorn-gap":
        weight = _shares(plan, order).mean(1)
    elif head == "abmilp":
        weight, values, constant = _abmilp(tensors, config, patches)
    elif head == "efficient":
        values = _efficient(tensors, patches)
    elif head == "simpool" and "gamma" not in config:
        values, constant = _simpool(tensors, patches)
    elif head == "coca":
        values, constant = _coca(tensors, config, patches)
    elif head == "sinkhorn-conv":
        values, constant = _convolved(tensors, _shares(plan, order), patches), tensors["conv.bias"]
    if weight is not None:
        values = (weight if weight.ndim == 2 else weight[:, None]) * patches
    if head == "cls-mean":
        own = _given(head, cls)
        last = patches[:, -(len(own) // config.get("blocks", 1)) :]  # of joined layers the last
        values = np.concatenate([np.zeros_like(patches), last / n], axis=1)
        constant = np.concatenate([own, np.zeros(last.shape[1])])
    if values is not None:
        features: Floats = values.sum(0) + constant
    elif head == "cls":
        features = _given(head, cls)
    else:
        features = NETWORK_OF[head](tensors, config, patches if order is None else patches[order[0]])
    if "norm.running_var" in tensors:
        scale = 1 / np.sqrt(tensors["norm.running_var"] + 1e-6)
        features = (features - tensors["norm.running_mean"]) * scale
        weight = None if weight is None else (weight if weight.ndim == 2 else weight[:, None]) * scale
        values = None if values is None else values * scale
    logits = tensors["classifier.weight"] @ features + tensors["classifier.bias"]
    return Output(logits, features, scores, plan, order, kernels, weight, values)


def _orders_of(head: str, tensors: Mapping[str, Floats], grid: tuple[int, int], orders: Array | None, n: int) -> Orders:
    directions = ORDERED.get(head)
    if directions is None:
        raise ValueError(f"the head `{head}` reads in no order: orders are given, expected None")
    found = scan_orders(head, *grid) if orders is None else orders.astype("i8")
    if found is None and "order" in tensors:
        found = tensors["order"].astype("i8")[None]
    if found is None:
        raise ValueError(f"the order of `{head}` is not in its file: orders is None, expected what `inspect` wrote as `orders`")
    if found.shape != (directions, n) or not np.array_equal(np.sort(found, 1), np.tile(np.arange(n), (directions, 1))):
        raise ValueError(f"orders of `{head}` are {found.shape}, expected {directions} with each of {n} tokens once")
    if head == "bi-gru" and not np.array_equal(found[0], found[1][::-1]):
        raise ValueError("orders of `bi-gru` differ, expected the second to be the first from its end")
    return found


def _shares(plan: Floats | None, order: Orders | None) -> Floats:
    """[N, N]: the plan, or that of the order that is read instead."""
    if plan is not None:
        return plan
    assert order is not None
    return np.eye(order.shape[1])[:, order[0]]


def _given(head: str, cls: Floats | None) -> Floats:
    if cls is None:
        raise ValueError(f"the head `{head}` reads the CLS token: cls is None, expected d numbers")
    return np.asarray(cls, dtype="f8")


def _efficient(tensors: Mapping[str, Floats], patches: Floats) -> Floats:
    query, project = tensors["query"], tensors["value.weight"]  # [M, d], [F, d]
    shares = softmax(patches @ query.T / math.sqrt(patches.shape[1]), axis=0)  # [N, M]
    return np.asarray(patches @ project.T * np.repeat(shares, len(project) // len(query), axis=1))


def _convolved(tensors: Mapping[str, Floats], plan: Floats, patches: Floats) -> Floats:
    """[N, 192]: what every token adds to the mean over positions of `Conv1d(d, 192, 5, padding="same")` of what is read."""
    position, tap = np.indices((len(patches), CONV_TAPS))
    inside = (position - tap + 2 >= 0) & (position - tap + 2 < len(patches))  # where the tap's output lies
    parts = [(share[:, None] * patches) @ tensors["conv.weight"][:, :, t].T for t, share in enumerate((plan @ inside).T)]
    return np.asarray(sum(parts) / len(patches))


def _norm(x: Floats, weight: Floats, bias: Floats, epsilon: float = 1e-5) -> Floats:
    normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    return np.asarray(normed * weight + bias)


def _linear(tensors: Mapping[str, Floats], name: str, x: Floats) -> Floats:
    return np.asarray(x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"])


def _simpool(tensors: Mapping[str, Floats], patches: Floats) -> tuple[Floats, Floats]:
    """[N, d] and [d]: what every token adds to the features, its deviation held, and what no token says."""
    weight, bias = tensors["norm_patches.weight"], tensors["norm_patches.bias"]
    return _simpool_weights(tensors, patches)[:, None] * _norm(patches, weight, 0 * bias, 1e-6), bias


def _simpool_weights(tensors: Mapping[str, Floats], patches: Floats) -> Floats:
    x = _norm(patches, tensors["norm_patches.weight"], tensors["norm_patches.bias"], 1e-6)
    asked = tensors["wq.weight"] @ patches.mean(0)
    return softmax(x @ tensors["wk.weight"].T @ asked / math.sqrt(len(asked)))


def _simpool_power(tensors: Mapping[str, Floats], config: Config, patches: Floats) -> Floats:
    x = _norm(patches, tensors["norm_patches.weight"], tensors["norm_patches.bias"], 1e-6)
    values = x - x.min() + 1e-6
    most = values.max(0)  # powers of the values themselves could overflow
    mean = _simpool_weights(tensors, patches) @ (values / most) ** config["gamma"]
    return np.asarray(most * mean ** (1 / config["gamma"]))


def _attended(query: Floats, key: Floats, value: Floats, heads: int) -> Floats:
    """[N, d]: what every value [N, d] adds to what one query [d] reads with several heads."""
    each = len(query) // heads
    shares = softmax((query * key).reshape(len(key), heads, each).sum(2) / math.sqrt(each), axis=0)  # [N, H]
    return np.asarray(np.repeat(shares, each, axis=1) * value)


def _abmilp(
    tensors: Mapping[str, Floats], config: Config, patches: Floats
) -> tuple[Floats | None, Floats | None, Floats | float]:
    """Weights [N]; of tokens that a self-attention has mixed what every one adds [N, d], and what none says."""
    front, read, value, attention = config.get("self_attention", "none"), patches, patches, patches
    if front != "none":
        query, key, value = np.split(patches @ tensors["self_attn.qkv.weight"].T, 3, axis=1)
        attention = softmax(query @ key.T / math.sqrt(patches.shape[1]))
        read = _linear(tensors, "self_attn.proj", attention @ value)
    hidden = np.tanh(_linear(tensors, "attention_predictor.0", read))
    if config.get("gate"):
        hidden = hidden / (1 + np.exp(-_linear(tensors, "attention_gate", read)))
    weight = softmax(hidden @ tensors["attention_predictor.2.weight"][0])
    if front != "both":
        return weight, None, 0.0
    added = (weight @ attention)[:, None] * (value @ tensors["self_attn.proj.weight"].T)
    return None, added, tensors["self_attn.proj.bias"]


def _coca(tensors: Mapping[str, Floats], config: Config, patches: Floats) -> tuple[Floats, Floats]:
    """[N, d] and [d]: what every token adds to the features, its deviation held, and what no token says."""
    (w_q, w_k, w_v), (b_q, b_k, b_v) = (np.split(tensors[f"attn.in_proj_{name}"], 3) for name in ("weight", "bias"))
    asked = _norm(tensors["query"][0], tensors["ln_q.weight"], tensors["ln_q.bias"])
    bias = tensors["ln_k.bias"]
    own = _norm(patches, tensors["ln_k.weight"], 0 * bias)
    read = _attended(w_q @ asked + b_q, (own + bias) @ w_k.T + b_k, own @ w_v.T, _heads_of("coca", config, len(asked)))
    return read @ tensors["attn.out_proj.weight"].T, _linear(tensors, "attn.out_proj", w_v @ bias + b_v)


def _v_jepa(tensors: Mapping[str, Floats], config: Config, patches: Floats) -> Floats:
    """A query after a block of cross-attention."""
    t = {name.removeprefix("cross_attention_block."): values for name, values in tensors.items()}
    asked = tensors["query_tokens"][0, 0]
    x = _norm(patches, t["norm1.weight"], t["norm1.bias"])
    key, value = np.split(_linear(t, "xattn.kv", x), 2, axis=1)
    read = asked + _attended(_linear(t, "xattn.q", asked), key, value, _heads_of("v-jepa", config, len(asked))).sum(0)
    hidden = _linear(t, "mlp.fc1", _norm(read, t["norm2.weight"], t["norm2.bias"]))
    gelu = hidden * (1 + np.array([math.erf(h / math.sqrt(2)) for h in hidden])) / 2
    return np.asarray(read + _linear(t, "mlp.fc2", gelu))


def _heads_of(head: str, config: Config, d: int) -> int:
    """Attention heads: those of the settings, or the largest divisor of d up to the head's own number."""
    most = 8 if head == "coca" else 12
    return config.get("heads") or next(m for m in range(most, 0, -1) if d % m == 0)


def _transformer(tensors: Mapping[str, Floats], config: Config, patches: Floats) -> Floats:
    """The CLS token after one post-norm `nn.TransformerEncoderLayer` with ReLU."""
    t = {name.removeprefix("encoder."): values for name, values in tensors.items()}
    x = np.concatenate([tensors["cls"][0], patches])
    d = x.shape[1]
    heads = _heads_of("transformer", config, d)
    query, key, value = np.split(x @ t["self_attn.in_proj_weight"].T + t["self_attn.in_proj_bias"], 3, axis=1)
    parts = [np.s_[:, i * d // heads : (i + 1) * d // heads] for i in range(heads)]
    mixed = [softmax(query[p] @ key[p].T / math.sqrt(d // heads)) @ value[p] for p in parts]
    x = x + np.concatenate(mixed, axis=1) @ t["self_attn.out_proj.weight"].T + t["self_attn.out_proj.bias"]
    x = _norm(x, t["norm1.weight"], t["norm1.bias"])[:1]
    hidden = np.maximum(x @ t["linear1.weight"].T + t["linear1.bias"], 0)
    x = x + hidden @ t["linear2.weight"].T + t["linear2.bias"]
    return np.asarray(_norm(x, t["norm2.weight"], t["norm2.bias"])[0])


def _deepsets(tensors: Mapping[str, Floats], config: Config, patches: Floats) -> Floats:
    hidden = np.maximum(patches @ tensors["phi.0.weight"].T + tensors["phi.0.bias"], 0)
    seen = hidden @ tensors["phi.2.weight"].T + tensors["phi.2.bias"]
    return np.asarray(_norm(seen, tensors["norm.weight"], tensors["norm.bias"]).mean(0))


def _bi_gru(tensors: Mapping[str, Floats], config: Config, patches: Floats) -> Floats:
    """Last states of `nn.GRU(d, 128, bidirectional=True)`."""
    ends = []
    for way, suffix in ((patches, ""), (patches[::-1], "_reverse")):
        w_in, w, b_in, b = (tensors[f"gru.{name}_l0{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        state = np.zeros(GRU_WIDTH)
        for given in way @ w_in.T + b_in:
            (r, z, fresh), (own_r, own_z, own) = np.split(given, 3), np.split(w @ state + b, 3)
            r, z = 1 / (1 + np.exp(-r - own_r)), 1 / (1 + np.exp(-z - own_z))
            state = (1 - z) * np.tanh(fresh + r * own) + z * state
        ends.append(state)
    return np.concatenate(ends)


NETWORK_OF: dict[str, Callable[[Mapping[str, Floats], Config, Floats], Floats]] = {
    "transformer": _transformer,
    "deepsets": _deepsets,
    "bi-gru": _bi_gru,
    "v-jepa": _v_jepa,
    "simpool": _simpool_power,
}


def shapes(head: str, config: Config, d: int, classes: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors in a probe's file, -1 for the number of tokens."""
    found: dict[str, tuple[int, ...]] = {}
    if head in ROUTERS or head.startswith("sinkhorn-") or head in ("content", "topk"):
        found["scorer.weight"] = (1, d)
    states, width = config.get("state_dim", 128), (d,) if config.get("sharing") == "channel" else ()
    for direction in range(SCANS.get(head, 1 if head in ROUTERS else 0)):
        group = {"A": (states, states), "B": (states, *width), "C": (*width, states), "D": width or (1,), "dt": (1,)}
        found |= {f"s4.{direction}.{name}": shape for name, shape in group.items()}
    width_of = {"sinkhorn-conv": HIDDEN, "bi-gru": 2 * GRU_WIDTH, "efficient": config.get("width") or d}
    width_of["cls-mean"] = d + d // config.get("blocks", 1)
    features = width_of.get(head, d)
    queries = config.get("queries") or next(m for m in range(32, 0, -1) if features % m == 0)
    gates = 3 * GRU_WIDTH
    gru = {
        "weight_ih_l0": (gates, d),
        "weight_hh_l0": (gates, GRU_WIDTH),
        "bias_ih_l0": (gates,),
        "bias_hh_l0": (gates,),
    }
    attention: dict[str, tuple[int, ...]] = {"in_proj_weight": (3 * d, d), "in_proj_bias": (3 * d,)}
    attention |= {"out_proj.weight": (d, d), "out_proj.bias": (d,)}
    layer: dict[str, tuple[int, ...]] = {f"self_attn.{name}": shape for name, shape in attention.items()}
    layer |= {
        "linear1.weight": (HIDDEN, d),
        "linear1.bias": (HIDDEN,),
        "linear2.weight": (d, HIDDEN),
        "linear2.bias": (d,),
    }
    layer |= {f"norm{i}.{name}": (d,) for i in (1, 2) for name in ("weight", "bias")}
    phi = {"phi.0.weight": (HIDDEN, d), "phi.0.bias": (HIDDEN,), "phi.2.weight": (d, HIDDEN), "phi.2.bias": (d,)}
    predictor = {"0.weight": (d, d), "0.bias": (d,), "2.weight": (1, d), "2.bias": (1,)}
    abmilp: dict[str, tuple[int, ...]] = {f"attention_predictor.{name}": shape for name, shape in predictor.items()}
    if config.get("gate"):
        abmilp |= {"attention_gate.weight": (d, d), "attention_gate.bias": (d,)}
    if config.get("self_attention", "none") != "none":
        abmilp |= {"self_attn.qkv.weight": (3 * d, d), "self_attn.proj.weight": (d, d), "self_attn.proj.bias": (d,)}
    coca: dict[str, tuple[int, ...]] = {"query": (1, d)} | {f"attn.{name}": shape for name, shape in attention.items()}
    coca |= {f"ln_{x}.{name}": (d,) for x in "qk" for name in ("weight", "bias")}
    block: dict[str, tuple[int, ...]] = {f"norm{i}.{name}": (d,) for i in (1, 2) for name in ("weight", "bias")}
    for name, inner, outer in (("xattn.q", d, d), ("xattn.kv", d, 2 * d), ("mlp.fc1", d, 4 * d), ("mlp.fc2", 4 * d, d)):
        block |= {f"{name}.weight": (outer, inner), f"{name}.bias": (outer,)}
    own: dict[str, dict[str, tuple[int, ...]]] = {
        "attention": {"query": (d,)},
        "random-fixed": {"order": (-1,)},
        "order": {"order": (-1,)},
        "abmilp": abmilp,
        "simpool": {"norm_patches.weight": (d,), "norm_patches.bias": (d,), "wq.weight": (d, d), "wk.weight": (d, d)},
        "coca": coca,
        "v-jepa": {"query_tokens": (1, 1, d), **{f"cross_attention_block.{name}": shape for name, shape in block.items()}},
        "efficient": {"query": (queries, d), "value.weight": (features, d)},
        "sinkhorn-conv": {"conv.weight": (HIDDEN, d, CONV_TAPS), "conv.bias": (HIDDEN,)},
        "transformer": {"cls": (1, 1, d), **{f"encoder.{name}": shape for name, shape in layer.items()}},
        "deepsets": phi | {"norm.weight": (d,), "norm.bias": (d,)},
        "bi-gru": {f"gru.{name}{way}": shape for way in ("", "_reverse") for name, shape in gru.items()},
    }
    if head == "linear-bn" or (head in NORMED and config.get("norm") == "batch"):
        found |= {"norm.running_mean": (features,), "norm.running_var": (features,)}
    return found | own.get(head, {}) | {"classifier.weight": (classes, features), "classifier.bias": (classes,)}
