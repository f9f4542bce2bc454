"""Float64 reference for diagnostics and evidence, written from the definitions and not from the program.

The logit of a class is computed the long way: tokens are routed, the state space model runs as a
recurrence over the sequence, the classifier reads its last output. Every probe here is linear in its
tokens, so exact evidence is each token (or routed token) times the gradient of the logit at it.

Run from the repository root, with torch, numpy and scipy installed:

    python tests/reference/evidence.py

It writes tests/fixtures/evidence/{diagnostics,evidence}.json and gives the same bytes every time.
"""

import json
import math

import numpy as np
import torch
from scipy.special import logsumexp
from scipy.stats import kendalltau

from place import FIXTURES

HERE = FIXTURES / "evidence"
torch.set_default_dtype(torch.float64)


# ---------------------------------------------------------------- routers


def standardised(scores):
    return (scores - scores.mean()) / (scores.std() + 1e-6)


def sinkhorn(s, tau=0.1, iterations=20):
    n = len(s)
    logits = -((s[:, None] - np.arange(n)[None, :] / (n - 1)) ** 2) / tau
    g = np.zeros(n)
    for _ in range(iterations):
        f = -logsumexp(logits + g[None, :], axis=1)
        g = -logsumexp(logits + f[:, None], axis=0)
    return np.exp(logits + f[:, None] + g[None, :])


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def neuralsort(s, tau=1.0):
    n = len(s)
    distance = np.abs(s[:, None] - s[None, :]).sum(axis=1)
    plan = np.zeros((n, n))
    for k in range(n):
        rank = n - k  # a descending relaxation, read backwards
        plan[:, k] = softmax(((n + 1 - 2 * rank) * s - distance) / tau)
    return plan


def softsort(s, power=2, tau=1.0):
    ordered = np.sort(s)
    return np.stack([softmax(-np.abs(a - s) ** power / tau) for a in ordered], axis=1)


# ---------------------------------------------------------------- diagnostics


def entropy(indices, n):
    shares = np.bincount(indices, minlength=n) / n
    shares = shares[shares > 0]
    return float(abs(-(shares * np.log(shares)).sum() / math.log(n)))


def diagnostics(plan, rows, cols):
    n = len(plan)
    best, lead = plan.argmax(axis=1), plan.argmax(axis=0)
    edge = max(1, n // 10)
    k = np.arange(n)
    mass = plan / plan.sum(axis=1, keepdims=True)
    expected = mass @ k
    spread = np.sqrt((mass * (k[None, :] - expected[:, None]) ** 2).sum(axis=1))
    tau = kendalltau(expected, k, variant="b").statistic
    order = np.argsort(expected, kind="stable")
    places = np.stack([order // cols, order % cols], axis=1).astype(float)
    return {
        "rank_coverage": len(set(best.tolist())) / n,
        "argmax_entropy": entropy(best, n),
        "edge_mass_10": float(((best < edge) | (best >= n - edge)).mean()),
        "row_max_mean": float(plan.max(axis=1).mean()),
        "row_max_p95": float(np.quantile(plan.max(axis=1), 0.95)),
        "row_marginal_error": float(np.abs(plan.sum(axis=1) - 1).max()),
        "column_marginal_error": float(np.abs(plan.sum(axis=0) - 1).max()),
        "token_coverage": len(set(lead.tolist())) / n,
        "token_entropy": entropy(lead, n),
        "mean_position_spread": float(spread.mean()),
        "kendall_tau": 0.0 if math.isnan(tau) else float(tau),
        "path_length": float(np.linalg.norm(np.diff(places, axis=0), axis=1).mean()),
    }


def diagnostic_cases():
    rng = np.random.default_rng(5)

    def scores(n):
        return standardised(rng.standard_normal(n))

    # Entries are multiples of one eighth, so that sums, means and ties are exact in any order.
    ties = rng.multinomial(8, np.ones(12) / 12, size=12) / 8
    plans = {
        "sinkhorn 7x7": (sinkhorn(scores(49)), 7, 7),
        "sinkhorn 3x11": (sinkhorn(scores(33), 0.5, 3), 3, 11),
        "neuralsort 3x4": (neuralsort(scores(12)), 3, 4),
        "softsort 5x4": (softsort(scores(20)), 5, 4),
        "softsort p1 sharp 5x4": (softsort(scores(20), 1, 0.05), 5, 4),
        "sinkhorn 1x2": (sinkhorn(scores(2)), 1, 2),
        "uniform 4x4": (np.full((16, 16), 1 / 16), 4, 4),
        "ties 4x3": (ties, 4, 3),
    }
    for name, (plan, rows, cols) in plans.items():
        yield {
            "name": name,
            "rows": rows,
            "cols": cols,
            "plan": plan.ravel().tolist(),
            "expected": diagnostics(plan, rows, cols),
        }


# ---------------------------------------------------------------- state space model


class Memory:
    """One state space model: A [S, S], B [S] or [S, d], C [S] or [d, S], D [1] or [d]."""

    def __init__(self, a, b, c, d, step):
        s = len(a)
        left = torch.linalg.inv(torch.eye(s) - step / 2 * a)
        self.a = left @ (torch.eye(s) + step / 2 * a)
        self.b = left @ (step * b)
        self.c, self.d = c, d
        self.radius = float(torch.linalg.eigvals(self.a).abs().max())

    @staticmethod
    def random(generator, states, width, channel):
        a = torch.randn(states, states, generator=generator).tril(-1)
        a = a - torch.diag(torch.rand(states, generator=generator) * 3 + 0.2)
        shape_b, shape_c, shape_d = ([states, width], [width, states], [width]) if channel else ([states], [states], [1])
        b, c, d = (torch.randn(*shape, generator=generator) for shape in (shape_b, shape_c, shape_d))
        return Memory(a, b, c, d, 0.07)

    def read(self, sequence):
        """The output [d] after the last step of a sequence [N, d], as a recurrence."""
        state = torch.zeros(len(self.a), sequence.shape[1])
        for u in sequence:
            if self.b.dim() == 1:
                state = self.a @ state + self.b[:, None] * u[None, :]
                y = self.c @ state + self.d * u
            else:
                state = self.a @ state + self.b * u[None, :]
                y = (self.c.T * state).sum(0) + self.d * u
        return y

    def kernel(self, n):
        """K[j], j steps before the end: [N] or [N, d]."""
        power, rows = self.b.clone(), []
        for _ in range(n):
            rows.append(self.c @ power if self.b.dim() == 1 else (self.c.T * power).sum(0))
            power = self.a @ power
        return torch.stack(rows)

    def gain(self, n):
        gain = self.kernel(n).flip(0)
        gain[-1] = gain[-1] + (self.d[0] if self.b.dim() == 1 else self.d)
        return gain


# ---------------------------------------------------------------- evidence


def explain(tokens, row, bias, sweeps, mix_bias=0.0):
    """sweeps: [(plan [N, N], read: sequence [N, d] -> features [F])]; features are averaged."""
    tokens = tokens.clone().requires_grad_()
    routed = [(plan.T @ tokens) for plan, _ in sweeps]
    for r in routed:
        r.retain_grad()
    features = sum(read(r) for r, (_, read) in zip(routed, sweeps)) / len(sweeps)
    logit = row @ features + bias
    logit.backward()
    return {
        "logit": logit.item(),
        "constant": (bias + mix_bias).item(),
        "token": (tokens * tokens.grad).sum(1).tolist(),
        "position": sum((r * r.grad).sum(1) for r in routed).detach().tolist(),
    }


def proxy(tokens, row, plans, radii):
    n = len(tokens)
    decay = [torch.tensor([rho ** (n - 1 - k) for k in range(n)]) for rho in radii]
    routed = sum((plan.T @ tokens) @ row * d for plan, d in zip(plans, decay)) / len(plans)
    raster = sum(tokens @ row * d for d in decay) / len(plans)
    return {"proxy": routed.tolist(), "proxy_raster": raster.tolist()}


def normals(generator):
    """A function that draws normal values, rounded to float32, which is what the program reads."""
    return lambda *shape: torch.randn(*shape, generator=generator).float().double()


def add_memories(directions, memories, n, channel):
    for direction, memory in zip(directions, memories):
        direction["channel" if channel else "shared"] = memory.gain(n).ravel().tolist()
        direction["radius"] = memory.radius


def permutation_plan(order):
    plan = torch.zeros(len(order), len(order))
    for k, i in enumerate(order):
        plan[i, k] = 1
    return plan


def evidence_cases():
    generator = torch.Generator().manual_seed(11)
    randn = normals(generator)

    def base(name, n, d, f):
        tokens, row, bias = randn(n, d), randn(f), randn(1)[0]
        case = {"name": name, "n": n, "width": d, "tokens": tokens.ravel().tolist()}
        case |= {"row": row.tolist(), "bias": float(bias)}
        return case, tokens, row, bias

    def pooled(name, n, d, weight):
        case, tokens, row, bias = base(name, n, d, d)
        result = explain(tokens, row, bias, [(torch.eye(n), lambda r: (weight * r).sum(0))])
        del result["position"]
        kind = "pool" if weight.shape[1] == 1 else "channel_pool"
        return case | {"form": {kind: weight.ravel().tolist()}, "expected": result}

    yield pooled("pool", 6, 5, torch.rand(6, 1, generator=generator))
    yield pooled("channel pool", 6, 5, torch.randn(6, 5, generator=generator))

    def scanned(name, n, d, plans, orders, channel):
        case, tokens, row, bias = base(name, n, d, d)
        memories = [Memory.random(generator, 4, d, channel) for _ in plans]
        sweeps = [(plan, m.read) for plan, m in zip(plans, memories)]
        expected = explain(tokens, row, bias, sweeps)
        expected |= proxy(tokens, row, plans, [m.radius for m in memories])
        expected |= {"proxy_at_0.9": proxy(tokens, row, plans, [0.9] * len(plans))["proxy"]}
        if not channel:
            expected["token_weight"] = (sum(p @ m.gain(n) for p, m in zip(plans, memories)) / len(plans)).tolist()
        both = zip(plans, orders)
        directions = [{"plan": p.ravel().tolist()} if order is None else {"order": order} for p, order in both]
        add_memories(directions, memories, n, channel)
        return case | {"form": {"scan": directions}, "expected": expected}

    for n, d in ((2, 3), (9, 11)):
        for channel in (False, True):
            plan = torch.tensor(sinkhorn(standardised(randn(n).numpy())))
            yield scanned(f"plan {n} {'channel' if channel else 'shared'}", n, d, [plan], [None], channel)
    for channel in (False, True):
        orders = [torch.randperm(12, generator=generator).tolist() for _ in range(4)]
        plans = [permutation_plan(order) for order in orders]
        yield scanned(f"four sweeps {'channel' if channel else 'shared'}", 12, 10, plans, orders, channel)

    # Two pools, each mapped to half of the features.
    n, d, f = 6, 5, 4
    case, tokens, row, bias = base("projected", n, d, f)
    weights, linear, inner = torch.rand(2, n, generator=generator), randn(f, d), randn(f)

    def project(r):
        pools = weights @ r
        return torch.cat([linear[:2] @ pools[0], linear[2:] @ pools[1]]) + inner

    expected = explain(tokens, row, bias, [(torch.eye(n), project)], row @ inner)
    del expected["position"]
    form = {"weights": weights.ravel().tolist(), "map": linear.ravel().tolist(), "bias": inner.tolist()}
    yield case | {"form": {"projected": form}, "expected": expected}

    # A convolution over the routed sequence, then the mean over positions: the classifier reads F features.
    n, d, f = 7, 5, 3
    case, tokens, row, bias = base("mix", n, d, f)
    weight, conv_bias = randn(f, d, 5), randn(f)
    plan = torch.tensor(sinkhorn(standardised(randn(n).numpy())))

    def convolve(r):
        return torch.nn.functional.conv1d(r.T[None], weight, conv_bias, padding=2)[0].mean(1)

    # One linear map per position: the sum of the taps that reach it, over N.
    maps = []
    for k in range(n):
        taps = [j for j in range(5) if 0 <= k + 2 - j < n]
        maps.append(weight[:, :, taps].sum(2) / n)
    expected = explain(tokens, row, bias, [(plan, convolve)], row @ conv_bias)
    mix = {"maps": torch.stack(maps).ravel().tolist(), "class_of": list(range(n)), "bias": conv_bias.tolist()}
    yield case | {"form": {"scan": [{"plan": plan.ravel().tolist(), "mix": mix}]}, "expected": expected}


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    for name, cases in (("diagnostics", diagnostic_cases()), ("evidence", evidence_cases())):
        (HERE / f"{name}.json").write_text(json.dumps(list(cases)) + "\n")


if __name__ == "__main__":
    main()
