"""Statistics by numpy, scipy and scikit-learn, for `src/model/stats`, `truth` and `diagnostics`.

    python tests/reference/stats.py

Needs numpy, scipy and scikit-learn. Writes `tests/fixtures/stats/stats.json`, the same bytes every time.
"""

import json

import numpy as np
from scipy import stats
from sklearn.metrics import roc_auc_score

from place import FIXTURES

rng = np.random.default_rng(11)


def quantiles():
    cases = []
    for n in (1, 2, 5, 64, 101):
        values = np.round(rng.normal(size=n) * 10, 3)
        at = [0.0, 0.025, 0.05, 0.3, 0.5, 0.95, 0.975, 1.0]
        expected = np.percentile(values, [100 * q for q in at])
        cases.append({"values": values.tolist(), "at": at, "quantiles": expected.tolist()})
    return cases


def spreads():
    cases = []
    for n in (2, 3, 20):
        values = np.round(rng.normal(size=n) * 3 + 1, 3)
        cases.append({"values": values.tolist(), "mean": values.mean(), "deviation": values.std(ddof=1)})
    return cases


def taus():
    cases = []
    for n, levels in ((2, 50), (7, 3), (30, 6), (50, 1000)):
        positions = rng.integers(0, levels, size=n)
        positions[0] = positions[-1] + 1  # never all the same
        tau = stats.kendalltau(np.arange(n), positions).statistic
        cases.append({"positions": positions.tolist(), "tau": float(tau)})
    return cases


def aucs():
    cases = []
    for n, levels in ((6, 2), (16, 4), (49, 8), (196, 100000)):
        truth = rng.random(n) < 0.3
        truth[:2] = True, False
        scores = np.round((rng.integers(-levels, levels, size=n) + levels / 3 * truth) / levels, 2)
        auc = float(roc_auc_score(truth, scores))
        cases.append({"truth": truth.tolist(), "scores": scores.tolist(), "auc": auc})
    return cases


def mcnemars():
    """Images that only the first, only the second, both and none had right; the exact two-sided p."""
    cases = []
    all_counts = [(0, 0, 5, 2), (3, 3, 1, 1), (1, 8, 0, 4), (12, 3, 40, 5), (0, 25, 9, 9), (480, 560, 900, 60)]
    for first, second, both, none in all_counts:
        n = first + second
        p = stats.binomtest(first, n, 0.5).pvalue if n else 1.0
        cases.append({"counts": [first, second, both, none], "p": float(p)})
    return cases


def bootstraps():
    """Ends of the 95 % interval of the mean, of many more resamples of trainings and images than the program's."""
    cases = []
    for shares in ([0.3], [0.2, 0.25, 0.6], [0.5, 0.5, 0.5, 0.5]):
        rows = np.array([(rng.random(150) < share) * 100.0 for share in shares])
        means = []
        for _ in range(40_000):
            drawn = rows[rng.integers(0, len(rows), size=len(rows))].mean(0)
            means.append(drawn[rng.integers(0, len(drawn), size=len(drawn))].mean())
        low, high = np.percentile(means, [2.5, 97.5])
        cases.append({"rows": rows.tolist(), "low": low, "high": high, "deviation": float(np.std(means))})
    return cases


def truths():
    """A pool of 12 tokens and an object that covers some of them: what finds it, how much lies on it."""
    cases = []
    for cover in ([0, 0.5, 1, 0.49, 0, 0, 0.75, 0.25, 0, 0, 0.5, 0], [0, 0.2, 0.4, 0, 0, 0, 0.4, 0.1, 0, 0, 0, 0]):
        cover = np.array(cover, dtype=float)
        weight, token, row = (np.round(rng.normal(size=size), 2) for size in (12, (12, 3), 3))
        evidence = weight * (token @ row)
        # At least half of a token is covered; where none is, the most covered ones.
        object_ = cover >= min(0.5, cover.max())
        cases.append(
            {
                "cover": cover.tolist(),
                "object": object_.tolist(),
                "weight": weight.tolist(),
                "tokens": token.ravel().tolist(),
                "row": row.tolist(),
                "weight_auc": float(roc_auc_score(object_, np.abs(weight))),
                "evidence_auc": float(roc_auc_score(object_, evidence)),
                "absolute_share": float((np.abs(evidence) * cover).sum() / np.abs(evidence).sum()),
                "positive_share": float((evidence.clip(0) * cover).sum() / evidence.clip(0).sum()),
                "object_share": float(cover.mean()),
            }
        )
    return cases


def tails():
    """Upper tails of the normal distribution, and of Student's t where there are degrees of freedom."""
    cases = [{"t": z, "df": None, "tail": float(stats.norm.sf(z))} for z in (-7.5, -3.1, -0.4, 0.0, 1.7, 2.9, 3.3, 9.0)]
    for df in (1.0, 1.7, 2.0, 4.3, 30.0, 999.0):
        cases += [{"t": t, "df": df, "tail": float(stats.t.sf(t, df))} for t in (-2.5, 0.0, 0.6, 2.2, 6.0)]
    return cases


document = {
    "quantiles": quantiles(),
    "spreads": spreads(),
    "taus": taus(),
    "aucs": aucs(),
    "mcnemars": mcnemars(),
    "bootstraps": bootstraps(),
    "truths": truths(),
    "tails": tails(),
}
out = FIXTURES / "stats"
out.mkdir(parents=True, exist_ok=True)
(out / "stats.json").write_text(json.dumps(document) + "\n")
