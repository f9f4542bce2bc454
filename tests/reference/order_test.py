"""Float64 reference for order tests, written from the definitions (section 10) and not from the program.

The contribution of a token at a position is measured, not derived: the state space model runs as a recurrence over a
sequence that holds that token there and zeros elsewhere. Of up to six tokens every exchange is tried; of more, mean
and variance follow from the matrix, best and worst from scipy's linear assignment, and p from many drawn exchanges.

Run from the repository root, with torch, numpy and scipy installed:

    python tests/reference/order_test.py

It writes tests/fixtures/evidence/order_test.json and gives the same bytes every time.
"""

import itertools
import json
import math

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm

from evidence import Memory, add_memories, neuralsort, normals, sinkhorn, standardised
from place import FIXTURES

HERE = FIXTURES / "evidence"
torch.set_default_dtype(torch.float64)
DRAWS = 100_000


def features_alone(tokens, memory, position):
    """[N, d]: what is read where one token alone stands at a position of an empty sequence."""
    rows = []
    for token in tokens:
        sequence = torch.zeros(len(tokens), len(token))
        sequence[position] = token
        rows.append(memory.read(sequence))
    return torch.stack(rows)


def places(tokens, sweeps, learned):
    """[N places, N tokens, d]: features of token i alone at place j, averaged over the directions."""
    n = len(tokens)
    out = torch.zeros(n, n, tokens.shape[1])
    for order, memory in sweeps:
        for j in range(n):
            position = j if learned else order.index(j)
            out[j] += features_alone(tokens, memory, position) / len(sweeps)
    return out


def contrast(alone, plan, w, bias, seed):
    m = (alone @ w).T.numpy()  # M[i, j]
    n = len(m)
    b = m @ plan.numpy().T
    value = bias + np.trace(b)
    mean = bias + b.sum() / n
    x = b - b.mean(1, keepdims=True) - b.mean(0, keepdims=True) + b.mean()
    variance = (x**2).sum() / (n - 1) if n > 1 else 0.0
    best, worst = (bias + b[linear_sum_assignment(b, maximize=up)].sum() for up in (True, False))
    index = np.arange(n)
    if n <= 6:
        all_ = np.array([bias + b[index, list(pi)].sum() for pi in itertools.permutations(range(n))])
        # A second, independent way: exhaustive search.
        witnesses = [(mean, all_.mean()), (variance, all_.var()), (best, all_.max()), (worst, all_.min())]
        assert all(math.isclose(a, c, rel_tol=1e-9, abs_tol=1e-9) for a, c in witnesses), witnesses
    else:
        rng = np.random.default_rng(seed)
        all_ = np.array([bias + b[index, rng.permutation(n)].sum() for _ in range(DRAWS)])
    std = math.sqrt(variance) if variance > 1e-24 else 0.0  # rounding
    content = bias + m.sum() / n
    result = {
        "value": value,
        "mean": mean,
        "std": std,
        "z": (value - mean) / std if std else None,
        "tail": float((all_ >= value - 1e-9 * std).mean()) if std else 1.0,
        "p_normal": float(norm.sf((value - mean) / std)) if std else 1.0,
        "best": best,
        "worst": worst,
        "headroom": (value - mean) / (best - mean) if std else None,
        "content": content,
    }
    return result, np.trace(m) + bias


def case(name, n, d, channel, plan=None, orders=None, classes=4, spread=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    randn = normals(generator)
    tokens, weight, bias = spread * randn(n, d) + randn(d), randn(classes, d), randn(classes)
    tokens = tokens.float().double()
    memories = [Memory.random(generator, 4, d, channel) for _ in orders or [None]]
    learned = orders is None
    if learned:
        plan = torch.tensor(plan(standardised(randn(n).numpy()))) if n > 1 else torch.ones(1, 1)
        sweeps = [(None, memories[0])]
        directions = [{"plan": plan.ravel().tolist()}]
    else:
        plan = torch.eye(n)
        sweeps = list(zip(orders, memories))
        directions = [{"order": order} for order in orders]
    add_memories(directions, memories, n, channel)
    alone = places(tokens, sweeps, learned)
    free = (alone.sum((0, 1)) / n) @ weight.T + bias  # order-free logits, [C]
    class_ = seed % classes
    rival = max((c for c in range(classes) if c != class_), key=lambda c: float(free[c]), default=None)
    tested = {}
    for kind, w, b in (
        ("logit", weight[class_], bias[class_]),
        ("margin", None if rival is None else weight[class_] - weight[rival], None if rival is None else bias[class_] - bias[rival]),
    ):
        if w is None:
            continue
        result, raster = contrast(alone, plan, w, float(b), seed)
        result["fixed_order"] = (raster if learned else result["value"]) - result["content"]
        result["routing"] = result["value"] - raster if learned else 0.0
        tested[kind] = result
    if rival is not None:
        tested["margin"]["against"] = rival
    # The logit the long way: every direction reads its own sequence.
    reads = [m.read(plan.T @ tokens if learned else tokens[order]) for order, m in sweeps]
    logit = float(weight[class_] @ (sum(reads) / len(reads)) + bias[class_])
    assert math.isclose(logit, tested["logit"]["value"], rel_tol=1e-9, abs_tol=1e-9), name
    return {
        "name": name,
        "n": n,
        "width": d,
        "class": class_,
        "tokens": tokens.ravel().tolist(),
        "weight": weight.ravel().tolist(),
        "bias": bias.tolist(),
        "directions": directions,
        "expected": tested,
    }


def cases():
    rng = np.random.default_rng(9)

    def order(n):
        return rng.permutation(n).tolist()

    seed = 0
    for channel in (False, True):
        kind = "channel" if channel else "shared"
        for n in (2, 4, 6, 14):
            for name, plan in (("sinkhorn", sinkhorn), ("neuralsort", neuralsort)):
                seed += 1
                yield case(f"{name} {n} {kind}", n, 5, channel, plan=plan, seed=seed)
            for sweeps in (1, 4):
                seed += 1
                orders = [order(n) for _ in range(sweeps)]
                yield case(f"{sweeps} sweeps of {n} {kind}", n, 5, channel, orders=orders, seed=seed)
        yield case(f"one token {kind}", 1, 5, channel, orders=[[0]], seed=seed)
        yield case(f"equal tokens {kind}", 5, 5, channel, orders=[order(5)], spread=0.0, seed=seed)
        yield case(f"one class {kind}", 5, 5, channel, orders=[order(5)], classes=1, seed=seed)


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    (HERE / "order_test.json").write_text(json.dumps(list(cases())) + "\n")


if __name__ == "__main__":
    main()
