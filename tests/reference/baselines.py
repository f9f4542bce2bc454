"""Nearest neighbours and logistic regression by scikit-learn, for `src/model/explain/baselines`.

    python tests/reference/baselines.py

Needs numpy and scikit-learn. Writes `baselines.json`: training and test vectors (float32), the training
classes, and what scikit-learn answers. The classes overlap, and the channels have scales from 0.01 to
100, so that neither method is right by accident.
"""

import json
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from place import FIXTURES

CLASSES, WIDTH, TRAIN, TEST = 5, 12, 150, 60
K, TEMPERATURE, C = 20, 0.07, 1.0


def main(out: Path) -> None:
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(CLASSES, WIDTH))
    scale = 10.0 ** rng.uniform(-2, 2, size=WIDTH)

    def draw(count):
        classes = np.arange(count) % CLASSES
        values = centres[classes] + 1.3 * rng.normal(size=(count, WIDTH))
        return np.round(values * scale, 6).astype(np.float32), classes

    train, classes = draw(TRAIN)
    test, truth = draw(TEST)

    knn = KNeighborsClassifier(
        n_neighbors=K, metric="cosine", weights=lambda distance: np.exp((1.0 - distance) / TEMPERATURE)
    )
    knn.fit(train.astype(np.float64), classes)

    scaler = StandardScaler().fit(train.astype(np.float64))
    logreg = LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
    logreg.fit(scaler.transform(train.astype(np.float64)), classes)
    scaled = scaler.transform(test.astype(np.float64))

    document = {
        "classes": CLASSES,
        "width": WIDTH,
        "train": [float(x) for x in train.ravel()],
        "train_classes": classes.tolist(),
        "test": [float(x) for x in test.ravel()],
        "test_classes": truth.tolist(),
        "knn": knn.predict(test.astype(np.float64)).tolist(),
        "logreg": logreg.predict(scaled).tolist(),
        "logreg_probabilities": np.round(logreg.predict_proba(scaled), 9).ravel().tolist(),
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "baselines.json").write_text(json.dumps(document) + "\n")


main(FIXTURES / "baselines")
