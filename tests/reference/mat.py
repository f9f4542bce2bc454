"""Small MATLAB files of version 5, as the devkits of Stanford Cars and ImageNet hold them.

    python tests/reference/mat.py        (numpy, scipy; writes tests/fixtures/mat/)
"""

import struct

import numpy as np
from scipy.io import savemat

from place import FIXTURES

OUT = FIXTURES / "mat"


def save(name, variables, compress=True):
    path = OUT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, variables, do_compression=compress)
    data = bytearray(path.read_bytes())
    data[:116] = b"MATLAB 5.0 MAT-file, made for tests".ljust(116)  # without the date
    path.write_bytes(bytes(data))


def cells(texts):
    out = np.empty((1, len(texts)), dtype=object)
    out[0] = texts
    return out


def annotations(rows, labels):
    fields = ["bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"] + ["class"] * labels + ["fname"]
    out = np.empty((1, len(rows)), dtype=[(field, object) for field in fields])
    for i, (label, name) in enumerate(rows):
        for field, value in zip(fields, [39.0, 116.0, 569.0, 375.0] + [float(label)] * labels + [name]):
            out[0, i][field] = value
    return out


def cars():
    save("cars/cars_meta.mat", {"class_names": cells(["AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Ford E-Séries 2009"])})
    train = [(2, "00001.jpg"), (3, "00002.jpg"), (1, "00003.jpg"), (1, "00004.jpg")]
    test = [(1, "00001.jpg"), (3, "00002.jpg"), (2, "00003.jpg")]
    save("cars/cars_train_annos.mat", {"annotations": annotations(train, True)})
    save("cars/cars_test_annos.mat", {"annotations": annotations(test, False)})
    save("cars/cars_test_annos_withlabels.mat", {"annotations": annotations(test, True)}, compress=False)


def imagenet():
    rows = [(1, "n02119789", "kit fox"), (2, "n02100735", "English setter"), (3, "n01440764", "tench"), (4, "n00001740", "entity")]
    out = np.empty((len(rows), 1), dtype=[(field, object) for field in ("ILSVRC2012_ID", "WNID", "words", "num_children")])
    for i, (number, wnid, words) in enumerate(rows):
        out[i, 0] = (np.int16(number), wnid, words, np.uint8(0 if number < 4 else 3))
    save("imagenet/meta.mat", {"synsets": out})


def kinds():
    variables = {
        "double": np.array([[1.5, -2.0, 1e300]]), "single": np.array([[0.25]], np.float32), "empty": np.zeros((0, 0)),
        "int8": np.array([[-128, 127]], np.int8), "int16": np.array([[-300]], np.int16), "uint32": np.array([[4000000000]], np.uint32),
        "int64": np.array([[-5]], np.int64), "truth": np.array([[True, False]]), "text": "Grüße, 車", "lines": np.array(["ab", "cd"]),
        "matrix": np.arange(6.0).reshape(2, 3), "complex": np.array([[1 + 2j]]),
        "nested": cells([cells(["deep", np.array([[7.0]])]), "flat"]),
    }
    save("kinds.mat", variables)
    save("kinds-plain.mat", variables, compress=False)
    # The other byte order, by hand: one 1 x 2 matrix of doubles stored as 16-bit integers.
    element = lambda kind, data: struct.pack(">II", kind, len(data)) + data + b"\0" * (-len(data) % 8)
    array = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", 1, 2)) + element(1, b"big")
    array += element(3, struct.pack(">hh", -7, 300))
    head = b"MATLAB 5.0 MAT-file, made for tests".ljust(124) + b"\x01\x00MI"
    (OUT / "big-endian.mat").write_bytes(head + element(14, array))


if __name__ == "__main__":
    cars()
    imagenet()
    kinds()
