"""Order files as NumPy and a spreadsheet write them, one order of 24 tokens.

    python tests/reference/orders.py        (numpy; writes tests/fixtures/orders/)
"""

import io
import zipfile

import numpy as np

from place import FIXTURES

OUT = FIXTURES / "orders"


def archive(name, array, compression=zipfile.ZIP_STORED):
    data = io.BytesIO()
    np.lib.format.write_array(data, array, allow_pickle=False)
    entry = zipfile.ZipInfo("order.npy", (1980, 1, 1, 0, 0, 0))  # without the time of day
    entry.compress_type = compression
    with zipfile.ZipFile(OUT / name, "w") as file:
        file.writestr(entry, data.getvalue())


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(0).permutation(24)
    archive("int64.npz", order)
    archive("deflated.npz", order.astype(np.float32), zipfile.ZIP_DEFLATED)
    np.save(OUT / "int32.npy", order.astype(np.int32))
    (OUT / "plain.csv").write_text("order\n" + "".join(f"{token}\n" for token in order))


if __name__ == "__main__":
    main()
