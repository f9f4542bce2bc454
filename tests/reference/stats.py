"""Statistics by numpy, scipy and scikit-learn, for `src/model/stats`, `truth` and `diagnostics`.

    python tests/reference/stats.py

Needs numpy, scipy and scikit-learn. Writes `tests/fixtures/stats/stats.json`, the same bytes every time.
"""

import itertools
import json

import numpy as np
from scipy import integrate, optimize, stats
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
    """Numbers of images that only the first, only the second, both and neither classified correctly; the exact two-sided p."""
    cases = []
    all_counts = [(0, 0, 5, 2), (3, 3, 1, 1), (1, 8, 0, 4), (12, 3, 40, 5), (0, 25, 9, 9), (480, 560, 900, 60)]
    for first, second, both, none in all_counts:
        n = first + second
        p = stats.binomtest(first, n, 0.5).pvalue if n else 1.0
        cases.append({"counts": [first, second, both, none], "p": float(p)})
    return cases


def holms():
    """p values by Holm's steps: the k-th smallest of m times m - k + 1, never less than one before it."""
    cases = []
    for m in (1, 4, 9):
        p = np.round(rng.random(m) ** 3, 4)
        order = np.argsort(p, kind="stable")
        stepped = np.maximum.accumulate(np.minimum(1, (m - np.arange(m)) * p[order]))
        corrected = np.empty(m)
        corrected[order] = stepped
        cases.append({"p": p.tolist(), "corrected": corrected.tolist()})
    return cases


def behrens_fisher(a, nu, b):
    """Upper tail of sqrt(a) t + sqrt(b) z, t of nu degrees of freedom, by numerical convolution."""
    if b == 0:
        return lambda x: float(stats.t.sf(x / np.sqrt(a), nu))

    def tail(x):
        # Integrated over the probability of t, as its tails are heavy.
        inside = lambda q: stats.norm.sf((x - np.sqrt(a) * stats.t.ppf(q, nu)) / np.sqrt(b))
        return integrate.quad(inside, 0, 1, limit=400, epsabs=1e-11, epsrel=1e-11)[0]

    return tail


def interval(d, least):
    """Both parts of the squared error of a mean over trainings and images, its tail, and half of its 95 % interval."""
    seeds, n = d.shape
    mean = d.mean()
    if seeds == 1:
        a, b = 0.0, max(d.var(ddof=1) / n, least**2)
        tail = lambda x: float(stats.t.sf(x / np.sqrt(b), n - 1))
    else:
        # Two-way analysis of variance without replication.
        row, column = d.mean(1, keepdims=True), d.mean(0, keepdims=True)
        between_rows = n * np.sum((row - mean) ** 2) / (seeds - 1)
        between_columns = seeds * np.sum((column - mean) ** 2) / (n - 1)
        rest = np.sum((d - row - column + mean) ** 2) / ((seeds - 1) * (n - 1))
        a = between_rows / (n * seeds)
        b = max(max(0.0, between_columns - rest) / (n * seeds) * (n - 1) / (n - 3), least**2 - a)
        tail = behrens_fisher(a, seeds - 1, b)
    error = np.sqrt(a + b)
    return error, tail, optimize.brentq(lambda x: tail(x) - 0.025, 0, 200 * error, xtol=1e-9)


def crossed():
    """Differences of two heads in points, a row a training and a column an image: mean, error, interval, tests."""
    cases = []
    for seeds, n, heads, trained in ((1, 60, 1.0, 0.0), (2, 40, 0.0, 1.0), (3, 90, 1.5, 0.1), (5, 120, 0.5, 0.3), (5, 50, 0.0, 0.0)):
        easy, own = rng.normal(0.7, 1.5, n), rng.normal(0.5, heads, (2, 1, n)) if heads else np.zeros((2, 1, n))
        of_training = rng.normal(0, trained, (2, seeds, 1)) if trained else np.zeros((2, seeds, 1))
        right = 100.0 * (rng.random((2, seeds, n)) < 1 / (1 + np.exp(-(easy + own + of_training))))
        d = right[0] - right[1]
        mean, least, margin = d.mean(), 100 / (n + 2), 8.0
        error, tail, reach = interval(d, least)
        cases.append(
            {
                "first": right[0].tolist(),
                "second": right[1].tolist(),
                "least": least,
                "margin": margin,
                "mean": float(mean),
                "error": float(error),
                "interval": [float(mean - reach), float(mean + reach)],
                "p": min(1.0, 2 * tail(abs(mean))),
                "equivalence": max(tail(margin + mean), tail(margin - mean)),
                "permutation": permutation(right, d),
            }
        )
    return cases


def permutation(right, d):
    """p over every way of dealing the trainings to two heads, and many signs of the images."""
    seeds, n = d.shape
    signs = rng.integers(0, 2, (40_000, n)) * 2 - 1
    if seeds == 1:
        drawn = signs @ d[0] / n
        return float(np.mean(np.abs(drawn) >= abs(d.mean()) - 1e-9))
    row, column = d.mean(1, keepdims=True), d.mean(0, keepdims=True)
    between = seeds * np.sum((column - d.mean()) ** 2) / (n - 1)
    rest = np.sum((d - row - column + d.mean()) ** 2) / ((seeds - 1) * (n - 1))
    images = signs @ (column[0] - d.mean()) / n * np.sqrt(max(0.0, 1 - rest / between))
    accuracies = right.mean(2).ravel()
    shares = []
    for own in itertools.combinations(range(2 * seeds), seeds):
        dealt = accuracies[list(own)].mean() - np.delete(accuracies, list(own)).mean()
        shares.append(np.mean(np.abs(dealt + images) >= abs(d.mean()) - 1e-9))
    return float(np.mean(shares))


def detectables():
    """The smallest difference in points that n images and so many seeds find with 80 % probability."""
    cases = []
    quantiles = (np.arange(4000) + 0.5) / 4000
    for n, seeds in ((500, 1), (500, 2), (500, 3), (5794, 3), (5794, 5), (200, 10)):
        if seeds == 1:
            # One mean, one standard deviation: the textbook's power of a t test.
            found = lambda shift: stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, shift)
            points = optimize.brentq(lambda shift: found(shift) - 0.8, 0, 20) * np.sqrt(1000 / n)
        else:
            a, b, nu = 500 / (n * seeds), 500 / n * (n - 1) / (n - 3), seeds - 1
            chi = np.sqrt(stats.chi2.ppf(quantiles, nu) / nu)

            def reach(a):
                tail = lambda x: stats.norm.sf(x / np.sqrt(a / chi**2 + b)).mean()
                return optimize.brentq(lambda x: tail(x) - 0.025, 0, 500 * np.sqrt(a + b))

            # For estimates of a: how far the mean must be from zero to be significant.
            reaches = np.array([reach(a * scale**2) for scale in chi[20::40]])
            error = np.sqrt(a + b)
            found = lambda points: (
                stats.norm.sf((reaches - points) / error) + stats.norm.sf((reaches + points) / error)
            ).mean()
            points = optimize.brentq(lambda points: found(points) - 0.8, 0, 500 * error)
        # A difference above 10 points requires that many images on which the heads disagree.
        cases.append({"images": n, "seeds": seeds, "points": float(points if points < 10 else points**2 / 10)})
    return cases


def causal():
    """Mean heights of removal curves of two heads, and the values of their table, in per cent: mean and 95 % interval."""
    own = np.random.default_rng(12)
    images = 20
    # Sinkhorn has three trainings, GAP two of the same seeds; images are easy or hard for both.
    easy = own.normal(0, 0.08, images)
    heights = {}
    for head, seeds, shift in (("sinkhorn", 3, 0.0), ("gap", 2, 0.06)):
        training = own.normal(0, 0.03, (seeds, 1))
        for ranking, level in (("evidence", 0.3), ("random", 0.5)):
            low = level + shift + easy + training + own.normal(0, 0.03, (seeds, images))
            high = 1 - level - shift + easy + training + own.normal(0, 0.03, (seeds, images))
            heights[head, ranking] = [np.clip(way, 0.01, 0.99).astype(np.float32) for way in (low, high)]

    def said(d):
        reach = interval(d, 0.0)[2]
        return [float(d.mean()), float(d.mean() - reach), float(d.mean() + reach)]

    rows = []
    for (head, ranking), ways in heights.items():
        deletion, insertion = (100.0 * way.astype(np.float64) for way in ways)
        seeds = len(deletion)
        of = lambda head, ranking, way: 100.0 * heights[head, ranking][way].astype(np.float64)[:seeds]
        random = ranking == "random"
        rows.append(
            {
                "head": head,
                "ranking": ranking,
                "deletion": ways[0].tolist(),
                "insertion": ways[1].tolist(),
                "expected": {
                    "Deletion": said(deletion),
                    "Deletion less random": None if random else said(deletion - of(head, "random", 0)),
                    "Deletion less Sinkhorn": None if head == "sinkhorn" else said(deletion - of("sinkhorn", ranking, 0)),
                    "Insertion": said(insertion),
                    "Insertion less random": None if random else said(insertion - of(head, "random", 1)),
                },
            }
        )
    return rows


def changes():
    """Right images (1, else 0), a row a training, as trained and in a changed reading; mean change in points, 95 % interval."""
    own = np.random.default_rng(13)
    cases = []
    # In the last case five images of 200 are lost, which chance may do: the interval then includes 0.
    for seeds, n, lost in ((1, 20, 0.5), (2, 20, 0.6), (3, 60, 0.3), (3, 20, 0.0), (1, 200, None)):
        right = own.random((seeds, n)) < 0.8
        forgotten = np.arange(n) % 40 == 0 if lost is None else own.random((seeds, n)) < lost
        changed = right & ~forgotten | forgotten & (own.random((seeds, n)) < (0.2 if lost is not None else 0))
        right |= forgotten if lost is None else False
        d = 100.0 * changed - 100.0 * right
        _, tail, reach = interval(d, 100 / (n + 2))
        low, high = max(d.mean() - reach, -100.0), min(d.mean() + reach, 100.0)
        differing = int(np.sum(np.any(d != 0, axis=0)))
        if max(2 * tail(abs(d.mean())), 2.0 ** (1 - differing)) >= 0.05:
            low, high = min(low, 0.0), max(high, 0.0)
        digits = lambda rows: ["".join("01"[int(x)] for x in row) for row in rows]
        cases.append(
            {"right": digits(right), "changed": digits(changed), "mean": float(d.mean()), "interval": [float(low), float(high)]}
        )
    return cases


def truths():
    """A pool of 12 tokens and an object that covers some of them: AUC of weights and evidence, and their share on it."""
    cases = []
    for cover in ([0, 0.5, 1, 0.49, 0, 0, 0.75, 0.25, 0, 0, 0.5, 0], [0, 0.2, 0.4, 0, 0, 0, 0.4, 0.1, 0, 0, 0, 0]):
        cover = np.array(cover, dtype=float)
        weight, token, row = (np.round(rng.normal(size=size), 2) for size in (12, (12, 3), 3))
        evidence = weight * (token @ row)
        # Tokens that are at least half covered; if there are none, the most covered ones.
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
    "truths": truths(),
    "tails": tails(),
    "holms": holms(),
    "crossed": crossed(),
    "detectables": detectables(),
    "causal": causal(),
    "changes": changes(),
}
out = FIXTURES / "stats"
out.mkdir(parents=True, exist_ok=True)
(out / "stats.json").write_text(json.dumps(document) + "\n")
