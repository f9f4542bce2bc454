"""Float64 reference for regions, written from the definitions (section 15) and not from the program.

Precedence is counted pair by pair of tokens and pair by pair of positions, the AUC pair by pair of tokens; evidence is each token
times the gradient of the logit at it.

Run from the repository root, with torch, numpy and scipy installed:

    python tests/reference/regions.py

It writes tests/fixtures/evidence/regions.json and gives the same bytes every time.
"""

import json

import numpy as np
import torch

from evidence import Memory, add_memories, explain, neuralsort, normals, permutation_plan, sinkhorn, standardised
from place import FIXTURES

HERE = FIXTURES / "evidence"
torch.set_default_dtype(torch.float64)


def members(cover):
    most = max(cover)
    if most == 0:
        return []
    return [i for i, c in enumerate(cover) if c >= 0.5] or [i for i, c in enumerate(cover) if c == most]


def rows(plan):
    """Rows as distributions; one without any mass is uniform."""
    n = len(plan)
    return [[x / sum(row) for x in row] if sum(row) > 0 else [1 / n] * n for row in plan]


def before(plan, a, b):
    n, total = len(plan), 0.0
    for i in a:
        for j in b:
            total += sum(plan[i][k] * plan[j][l] for k in range(n) for l in range(k + 1, n))
    return total / (len(a) * len(b))


def auc(values, inside):
    on = [v for i, v in enumerate(values) if i in inside]
    off = [v for i, v in enumerate(values) if i not in inside]
    if not on or not off:
        return None
    return sum((x > y) + 0.5 * (x == y) for x in on for y in off) / (len(on) * len(off))


def region(plans, cover, weight, evidence):
    inside, n = members(cover), len(cover)
    found = {"tokens": len(inside)}
    if not inside:
        return found
    places = [sum(k * row[k] for k in range(n)) for plan in plans for i, row in enumerate(plan) if i in inside]
    found["position"] = sum(places) / len(places) / (n - 1)
    if weight is not None:
        found["weight"] = n * sum(weight[i] for i in inside) / len(inside)
        found["weight_auc"] = auc([abs(w) for w in weight], inside)
    found["evidence"] = sum(evidence[i] for i in inside)
    found["mean_evidence"] = found["evidence"] / len(inside)
    found["evidence_auc"] = auc(evidence, inside)
    return found


def case(name, n, d, channel, seed, plan=None, orders=None):
    generator = torch.Generator().manual_seed(seed)
    randn = normals(generator)
    classes, class_ = 3, seed % 3
    tokens, weight, bias = randn(n, d), randn(classes, d), randn(classes)
    if orders is None:
        plans = [torch.tensor(plan(standardised(randn(n).numpy())))]
        if name.startswith("a row of nothing"):
            plans[0][2] = 0
        directions = [{"plan": plans[0].ravel().tolist()}]
    else:
        plans = [permutation_plan(order) for order in orders]
        directions = [{"order": order} for order in orders]
    memories = [Memory.random(generator, 4, d, channel) for _ in plans]
    add_memories(directions, memories, n, channel)
    sweeps = [(p, m.read) for p, m in zip(plans, memories)]
    evidence = explain(tokens, weight[class_], bias[class_], sweeps)["token"]
    counts = None
    if not channel:
        counts = (sum(p @ m.gain(n) for p, m in zip(plans, memories)) / len(plans)).tolist()
    rng = np.random.default_rng(seed)
    covers = {
        "half and more": np.where(rng.random(n) < 0.5, rng.random(n), 1.0),
        "little": 0.49 * rng.random(n),
        "point": np.eye(n)[rng.integers(n)],
        "nothing": np.zeros(n),
        "everything": np.ones(n),
    }
    covers = {name: cover.tolist() for name, cover in covers.items()}
    normal = [rows(p.tolist()) for p in plans]
    inside = {name: members(cover) for name, cover in covers.items()}
    precedence = [
        [
            sum(before(p, a, b) for p in normal) / len(normal) if a and b else None
            for b in inside.values()
        ]
        for a in inside.values()
    ]
    return {
        "name": name,
        "n": n,
        "width": d,
        "class": class_,
        "tokens": tokens.ravel().tolist(),
        "weight": weight.ravel().tolist(),
        "bias": bias.tolist(),
        "directions": directions,
        "covers": covers,
        "expected": {
            "regions": {name: region(normal, cover, counts, evidence) for name, cover in covers.items()},
            "precedence": precedence,
        },
    }


def cases():
    rng = np.random.default_rng(15)
    seed = 0
    for channel in (False, True):
        kind = "channel" if channel else "shared"
        for name, plan in (("sinkhorn", sinkhorn), ("neuralsort", neuralsort), ("a row of nothing", sinkhorn)):
            seed += 1
            yield case(f"{name} {kind}", 12, 5, channel, seed, plan=plan)
        for sweeps in (1, 4):
            seed += 1
            orders = [rng.permutation(9).tolist() for _ in range(sweeps)]
            yield case(f"{sweeps} sweeps {kind}", 9, 5, channel, seed, orders=orders)


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    (HERE / "regions.json").write_text(json.dumps(list(cases())) + "\n")


if __name__ == "__main__":
    main()
