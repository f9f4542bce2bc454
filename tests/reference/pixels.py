"""A yardstick for backbones: logistic regression on the raw pixels of the images that probes are trained and tested on.

    python tests/reference/pixels.py DATA SIDE RESULT.json

Needs numpy, Pillow and scikit-learn. DATA holds train/CLASS/* and test/CLASS/* (or val/CLASS/*). Pictures are resized to
SIDE x SIDE pixels, which are standardised, each by its mean and deviation over the training images. The strength of the L2
penalty is the one of five that does best on a tenth of the training images, which are then trained on too. RESULT.json holds
the accuracy on the test images in percent, C, and how many images there were.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression


def pixels(folder, side):
    """[M, 3 side side] and the classes, images in order of their names."""
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    samples = [(path, index) for index, name in enumerate(classes) for path in sorted((folder / name).iterdir())]
    photo = lambda path: Image.open(path).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    x = np.stack([np.asarray(photo(path), dtype=np.float32).ravel() for path, _ in samples])
    return x, np.array([index for _, index in samples])


def fitted(x, y, c):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a hundred steps suffice to compare them
        return LogisticRegression(C=c, max_iter=100).fit(x, y)


def main():
    root, side, out = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    held = next(root / name for name in ("test", "val") if (root / name).is_dir())
    (x, y), (x_test, y_test) = pixels(root / "train", side), pixels(held, side)
    mean, deviation = x.mean(0), x.std(0) + 1e-6
    x, x_test = (x - mean) / deviation, (x_test - mean) / deviation
    chosen = np.random.default_rng(0).permutation(len(y)) < len(y) // 10
    tried = {c: fitted(x[~chosen], y[~chosen], c).score(x[chosen], y[chosen]) for c in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)}
    c = max(tried, key=tried.get)
    accuracy = 100 * fitted(x, y, c).score(x_test, y_test)
    out.write_text(json.dumps({"accuracy": accuracy, "c": c, "train": len(y), "test": len(y_test)}) + "\n")
    print(f"logistic regression on pixels: {accuracy:.2f} % of {len(y_test)} images, C {c:g}")


if __name__ == "__main__":
    main()
