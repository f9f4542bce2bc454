"""Similarities of images, by scipy and scikit-learn in float64, for `src/model/explain/evaluation/similarity`.

Vectors are float16 numbers, written exactly; null stands for a vector that is missing. Cosine is the normalised dot product,
Spearman's correlation scipy's; both are null where one of the two has none (zeros; for Spearman all the same). The map is the
PCA of the normalised vectors (of the normalised ranks), the largest loading of each axis positive.

    python tests/reference/similarity.py

Needs numpy, scipy and scikit-learn. Writes `tests/fixtures/stats/similarity.json`, the same bytes every time.
"""

import json

import numpy as np
from scipy import stats
from sklearn.decomposition import PCA

from place import FIXTURES

rng = np.random.default_rng(14)


def odd():
    """3 x 3 tokens of fourteen images: ties, opposites, multiples, constants, zeros, one that is missing."""
    vectors = rng.normal(size=(14, 9)).astype(np.float16)
    vectors[1] = np.round(vectors[1])
    vectors[2] = [0, 1, 1, 0, 2, 2, 2, 0, 1]
    vectors[3] = 0.75
    vectors[5] = 0
    vectors[7] = np.nan
    vectors[8] = 2 * vectors[0]
    vectors[10] = -vectors[4]
    vectors[12] = vectors[6]
    return (3, 3), vectors


def structured():
    """5 x 6 tokens of thirty images in three groups, with noise, like an order by content."""
    groups = rng.normal(size=(3, 30))
    which = rng.integers(0, 3, size=30)
    noisy = groups[which] + 0.4 * rng.normal(size=(30, 30))
    places = stats.rankdata(noisy, axis=1) - 1
    return (5, 6), (places / 29).astype(np.float16)


def plain(matrix):
    return [[None if np.isnan(x) else float(x) for x in row] for row in matrix]


def unit(vectors, ranks):
    """Vectors of length 1; rows that have none are not a number."""
    wide = vectors.astype(np.float64)
    known = ~np.isnan(wide).any(1)
    if ranks:
        wide[known] = stats.rankdata(wide[known], axis=1)
        wide[known] -= wide[known].mean(1, keepdims=True)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.where(length > 0, wide / np.where(length > 0, length, 1), np.nan)


def spearman(vectors):
    n = len(vectors)
    wide = vectors.astype(np.float64)
    has = [not np.isnan(row).any() and np.ptp(row) > 0 for row in wide]
    out = np.full((n, n), np.nan)
    for i in range(n):
        for j in range(n):
            if has[i] and has[j]:
                out[i, j] = stats.spearmanr(wide[i], wide[j]).statistic
    return out


def layout(rows):
    """Two principal components of the rows that are known, and their shares of the variance."""
    known = ~np.isnan(rows).any(1)
    pca = PCA(n_components=2, svd_solver="full").fit(rows[known])
    points = pca.transform(rows[known])
    for axis, loadings in enumerate(pca.components_):
        if loadings[np.abs(loadings).argmax()] < 0:
            points[:, axis] *= -1
    out = np.full((len(rows), 2), np.nan)
    out[known] = points
    return {"points": plain(out), "explained": pca.explained_variance_ratio_.tolist()}


cases = []
for name, make in (("odd", odd), ("structured", structured)):
    (height, width), vectors = make()
    directions = unit(vectors, False)
    cosine = directions @ directions.T
    cases.append(
        {
            "name": name,
            "rows": height,
            "cols": width,
            "vectors": plain(vectors.astype(np.float64)),
            "cosine": {"similarity": plain(cosine), "map": layout(directions)},
            "spearman": {"similarity": plain(spearman(vectors)), "map": layout(unit(vectors, True))},
        }
    )
out = FIXTURES / "stats"
out.mkdir(parents=True, exist_ok=True)
(out / "similarity.json").write_text(json.dumps(cases) + "\n")
