"""Reference numbers for routers and S4, in float64 PyTorch, written from the specification alone:
every formula literally, in the log domain, gradients by torch.autograd.

Run from the repository root, with torch and safetensors installed:

    python tests/reference/routing.py

It writes tests/fixtures/routing/routing.safetensors. All inputs are float32 values, so that the
float32 program has exactly the same ones. The metadata key `cases` lists what is in the file.

Plans of N > 9 tokens are kept as three rows and two products: `P q` and `c P`.
"""

import json
import math

import numpy as np
import torch
from safetensors.numpy import save_file

from place import FIXTURES

torch.set_default_dtype(torch.float64)
torch.set_num_threads(2)

OUT = FIXTURES / "routing" / "routing.safetensors"
arrays: dict[str, np.ndarray] = {}
cases: dict[str, list] = {"plans": [], "kernels": [], "readouts": []}


def keep(name, tensor):
    arrays[name] = np.ascontiguousarray(torch.as_tensor(tensor).detach().numpy().astype(np.float64))


def single(x):
    """Rounded to float32, in float64."""
    return torch.from_numpy(np.asarray(x, dtype=np.float32).astype(np.float64))


# ---- routers (section 2) ----


def standardise(s):
    return (s - s.mean()) / (s.var(unbiased=False).sqrt() + 1e-6)


def sinkhorn(s, tau, iterations):
    n = len(s)
    p = torch.arange(n) / (n - 1)
    log_kernel = -((s[:, None] - p[None, :]) ** 2) / tau
    g = torch.zeros(n)
    for _ in range(iterations):
        f = -torch.logsumexp(log_kernel + g[None, :], dim=1)
        g = -torch.logsumexp(log_kernel + f[:, None], dim=0)
    return torch.exp(log_kernel + f[:, None] + g[None, :])


def neuralsort(s, tau):
    n = len(s)
    distances = (s[:, None] - s[None, :]).abs().sum(dim=1)
    rows = [torch.softmax(((n + 1 - 2 * r) * s - distances) / tau, dim=0) for r in range(1, n + 1)]
    relaxed = torch.stack(rows)  # R[r - 1, i], descending
    return torch.stack([relaxed[n - k - 1] for k in range(n)], dim=1)


def softsort(s, tau, power):
    ordered = torch.sort(s).values
    distance = (ordered[None, :] - s[:, None]).abs() ** power  # [i, k]
    return torch.softmax(-distance / tau, dim=0)


ROUTERS = {"sinkhorn": sinkhorn, "neuralsort": neuralsort, "softsort": softsort}


def plan_case(router, n, kind, **settings):
    name = "/".join([router, str(n), kind, *(str(v) for v in settings.values())])
    s = single(arrays[f"scores/{n}/{kind}"]).requires_grad_()
    q = single(arrays[f"gain/{n}"]).requires_grad_()
    c = single(arrays[f"cotangent/{n}"])
    plan = ROUTERS[router](s, **settings)
    weights = plan @ q
    ds, dq = torch.autograd.grad((c * weights).sum(), [s, q])
    rows = list(range(n)) if n <= 9 else [0, n // 3, n - 1]
    keep(f"{name}/rows", plan[rows])
    keep(f"{name}/weights", weights)
    keep(f"{name}/columns", c @ plan)
    keep(f"{name}/ds", ds)
    keep(f"{name}/dq", dq)
    cases["plans"].append({"name": name, "router": router, "n": n, "kind": kind, "rows": rows, "config": settings})


# ---- S4 (section 3) ----


def hippo(states):
    n = np.arange(states)
    a = np.tril(-np.sqrt((2 * n[:, None] + 1.0) * (2 * n[None, :] + 1.0)), -1) - np.diag(n + 1.0)
    return a, np.sqrt(2 * n + 1.0)


def kernel(a, b, c, dt, n):
    """K[j] = C Abar^j Bbar for one channel: b, c [S]."""
    states = len(b)
    implicit = torch.eye(states) - dt / 2 * a
    abar = torch.linalg.solve_triangular(implicit, torch.eye(states) + dt / 2 * a, upper=False)
    state = torch.linalg.solve_triangular(implicit, (dt * b)[:, None], upper=False)[:, 0]
    out = []
    for _ in range(n):
        out.append(c @ state)
        state = abar @ state
    return torch.stack(out), abar.diagonal().abs().max()


def kernel_of_hold(a, b, c, dt, n):
    """The same by the zero-order hold: exp(dt [[A, b], [0, 0]]) is [[Abar, Bbar], [0, 1]]."""
    states = len(b)
    both = torch.cat([torch.cat([a.tril(), b[:, None]], 1), torch.zeros(1, states + 1)])
    both = torch.linalg.matrix_exp(dt * both)
    abar, state = both[:states, :states], both[:states, states]
    out = []
    for _ in range(n):
        out.append(c @ state)
        state = abar @ state
    return torch.stack(out), torch.exp(dt * a.diagonal()).max()


def kernel_case(states, step, n, channels, rng, trained, hold=False):
    name = f"s4/{states}/{step}/{channels}" + ("/trained" if trained else "") + ("/hold" if hold else "")
    a, b = hippo(states)
    if trained:
        a = a * (1 + 0.1 * rng.uniform(-1, 1, a.shape))
        b = b * (1 + 0.1 * rng.uniform(-1, 1, b.shape))
    d = max(channels, 1)
    a = single(a).requires_grad_()
    if trained:
        keep(f"{name}/a", a)
    b = single(b[:, None] * (1 + 0.1 * rng.uniform(-1, 1, (states, d)))).requires_grad_()
    c = single(rng.normal(size=(d, states))).requires_grad_()
    dt = single([step]).requires_grad_()
    cotangent = single(rng.normal(size=(n, d)))
    columns, radius = zip(*[(kernel_of_hold if hold else kernel)(a, b[:, ch], c[ch], dt[0], n) for ch in range(d)])
    k = torch.stack(columns, dim=1)  # [N, d]
    da, db, dc, ddt = torch.autograd.grad((cotangent * k).sum(), [a, b, c, dt])
    da = da.tril()
    probe = single(rng.normal(size=states))
    for key, value in [
        ("b", b), ("c", c), ("cotangent", cotangent), ("kernel", k), ("radius", radius[0].reshape(1)),
        ("probe", probe), ("da_probe", da @ probe), ("probe_da", probe @ da), ("da_diagonal", da.diagonal()),
        ("db", db), ("dc", dc), ("dstep", ddt),
    ]:
        keep(f"{name}/{key}", value)
    cases["kernels"].append(
        {"name": name, "states": states, "step": step, "n": n, "channels": d, "trained": trained}
        | ({"hold": True} if hold else {})
    )


# ---- from the scorer to the readout ----


def readout_case(router, n, d, states, rng, **settings):
    name = f"readout/{router}/{n}"
    a, b = hippo(states)
    tokens = single(rng.normal(size=(n, d)))
    w = single(rng.uniform(-1, 1, d) / math.sqrt(d)).requires_grad_()
    a, b = single(a).requires_grad_(), single(b).requires_grad_()
    c = single(rng.normal(size=states)).requires_grad_()
    skip = single([0.3]).requires_grad_()
    dt = single([0.05]).requires_grad_()
    cotangent = single(rng.normal(size=d))
    plan = ROUTERS[router](standardise(tokens @ w), **settings)
    k, _ = kernel(a, b, c, dt[0], n)
    routed = plan.T @ tokens  # [N, d]
    z = sum(k[n - 1 - i] * routed[i] for i in range(n)) + skip * routed[n - 1]
    grads = torch.autograd.grad((cotangent * z).sum(), [w, a, b, c, skip, dt])
    keep(f"{name}/tokens", tokens)
    keep(f"{name}/cotangent", cotangent)
    keep(f"{name}/z", z)
    for key, value in zip(["w", "a", "b", "c", "d", "step"], [w, a, b, c, skip, dt]):
        keep(f"{name}/{key}", value)
    for key, value in zip(["w", "a", "b", "c", "d", "step"], grads):
        keep(f"{name}/grad_{key}", value.tril() if key == "a" else value)
    cases["readouts"].append({"name": name, "router": router, "n": n, "d": d, "states": states, "config": settings})


def main():
    rng = np.random.default_rng(2024)
    for n in [2, 9, 196, 256]:
        scores = rng.normal(size=n)
        keep(f"scores/{n}/gauss", single(scores))
        scores[n // 3] = 14.0
        keep(f"scores/{n}/outlier", single(scores))
        keep(f"gain/{n}", single(rng.normal(size=n)))
        keep(f"cotangent/{n}", single(rng.normal(size=n)))
    for n in [2, 9, 196, 256]:
        for kind in ["gauss", "outlier"] if n < 256 else ["outlier"]:
            for tau in [0.1, 0.01, 1.0]:
                plan_case("sinkhorn", n, kind, tau=tau, iterations=20)
            for tau in [1.0, 0.01]:
                plan_case("neuralsort", n, kind, tau=tau)
            for power in [1, 2]:
                for tau in [1.0, 0.01]:
                    plan_case("softsort", n, kind, tau=tau, power=power)
    plan_case("sinkhorn", 9, "gauss", tau=0.1, iterations=1)
    plan_case("sinkhorn", 9, "gauss", tau=0.1, iterations=200)
    for states in [1, 2, 16, 128, 256]:
        for step in [0.001, 0.05, 0.1]:
            kernel_case(states, step, 196, 0, rng, trained=False)
    kernel_case(16, 0.05, 196, 0, rng, trained=True)
    kernel_case(16, 0.05, 196, 5, rng, trained=False)
    kernel_case(128, 0.05, 196, 3, rng, trained=False)
    kernel_case(5, 0.1, 7, 3, rng, trained=True)
    for n, d, states in [(9, 4, 4), (196, 8, 16)]:
        readout_case("sinkhorn", n, d, states, rng, tau=0.1, iterations=20)
        readout_case("neuralsort", n, d, states, rng, tau=1.0)
        readout_case("softsort", n, d, states, rng, tau=1.0, power=2)
    for states, step in [(1, 0.05), (2, 0.001), (16, 0.05), (128, 0.05), (256, 0.1)]:
        kernel_case(states, step, 196, 0, rng, trained=False, hold=True)
    kernel_case(16, 0.05, 196, 0, rng, trained=True, hold=True)
    kernel_case(128, 0.1, 60, 3, rng, trained=False, hold=True)
    kernel_case(5, 0.1, 7, 3, rng, trained=True, hold=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    save_file(arrays, OUT, metadata={"cases": json.dumps(cases)})
    print(f"{OUT.name}: {len(arrays)} arrays, {OUT.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
