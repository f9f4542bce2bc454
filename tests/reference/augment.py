"""Random crops of pictures, resized and flipped, for `src/model/backbone/preprocess/augment.rs`: torchvision's
`RandomResizedCrop` and the one of facebookresearch/mae's linear probe (util/crop.py), written from what they document, resized
by Pillow.

    python tests/reference/augment.py

Needs Pillow and numpy. Writes tests/fixtures/augment/crops.json: for pictures whose byte i is (i * 2654435761 >> 7) mod 256 the
64-bit `words` in the order in which they are drawn, the rule (`smallest` share of the area; `clipped` to fit after one draw, or
ten draws and then the largest in the middle), the `part` [left, top, width, height], and the SHA-256 of the bytes of the
resized and perhaps mirrored picture. A word is a number from low to high by its upper 52 bits, one of n by its lower 32, and
mirrors where its upper bit is 0.
"""

import hashlib
import json
import math
import random

import numpy as np
from PIL import Image

from place import FIXTURES

NARROWEST, WIDEST = 3 / 4, 4 / 3


def between(word, low, high):
    return (word >> 12) / 2**52 * (high - low) + low


def one_of(word, n):
    return (word % 2**32) * n >> 32


def part(width, height, smallest, clipped, words):
    """Left, top, width and height of the crop; consumes numbers from the front of `words`."""
    for _ in range(1 if clipped else 10):
        area = width * height * between(words.pop(0), smallest, 1.0)
        shape = math.exp(between(words.pop(0), math.log(NARROWEST), math.log(WIDEST)))
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if clipped:
            w, h = max(1, min(w, width)), max(1, min(h, height))
        if 0 < w <= width and 0 < h <= height:
            return one_of(words.pop(0), width - w + 1), one_of(words.pop(0), height - h + 1), w, h
    if width / height < NARROWEST:
        w, h = width, round(width / NARROWEST)
    elif width / height > WIDEST:
        w, h = round(height * WIDEST), height
    else:
        w, h = width, height
    return (width - w) // 2, (height - h) // 2, w, h


def case(drawn, size, to, smallest, clipped):
    width, height = size
    words = [drawn.getrandbits(64) for _ in range(21)]
    left = list(words)
    x, y, w, h = part(width, height, smallest, clipped, left)
    mirror = left.pop(0)
    bytes_of = (np.arange(width * height * 3, dtype=np.uint64) * 2654435761 >> 7).astype(np.uint8)
    picture = Image.fromarray(bytes_of.reshape(height, width, 3))
    seen = picture.crop((x, y, x + w, y + h)).resize(to, Image.Resampling.BICUBIC)
    if mirror < 2**63:
        seen = seen.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return {
        "size": size,
        "to": to,
        "smallest": smallest,
        "clipped": clipped,
        "words": words[: len(words) - len(left)],
        "part": [x, y, w, h],
        "sha256": hashlib.sha256(seen.tobytes()).hexdigest(),
    }


def main():
    drawn = random.Random(0)
    sizes = [(50, 37), (37, 50), (224, 224), (90, 12), (12, 90), (200, 5), (3, 3), (1, 1)]
    cases = [
        case(drawn, size, to, smallest, clipped)
        for size in sizes
        for to in [(16, 16), (24, 10)]
        for smallest, clipped in [(0.08, True), (0.08, False), (0.2, False)]
    ]
    (FIXTURES / "augment").mkdir(parents=True, exist_ok=True)
    text = ",\n".join(json.dumps(one) for one in cases)
    (FIXTURES / "augment" / "crops.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
