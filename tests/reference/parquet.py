"""Parquet files as Hugging Face's datasets have them, small, written by pyarrow.

    pip install pyarrow pillow
    python tests/reference/parquet.py

Two shards for training and one for testing with class names (`hub`), text as labels with gzip and
version-2 pages (`text`), plain bytes and 32-bit labels with no dictionary and no packing (`plain`),
and a Zstandard one that is refused (`packed`). `expected.json` holds label and SHA-256 of every image.
"""

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from place import FIXTURES

NAMES = ["apple", "pear", "quince"]
rng = np.random.default_rng(7)


def picture(side=10):
    """The bytes of a PNG file of noise, which no compression makes smaller."""
    file = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def described(table, features):
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def images(pictures):
    rows = [None if p is None else {"bytes": p, "path": f"{i}.png"} for i, p in enumerate(pictures)]
    return pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def hub(count, offset=0):
    """Rows with a missing image, a missing label and the same image twice."""
    pictures = [picture(6 + i % 9) for i in range(count)]
    labels = [(i + offset) % 3 for i in range(count)]
    if count > 10:
        pictures[4], labels[5], pictures[8] = None, None, pictures[1]
    label = pa.array(labels, pa.int64())
    table = pa.table({"idx": pa.array(range(count)), "image": images(pictures), "label": label})
    features = {
        "idx": {"dtype": "int64", "_type": "Value"},
        "image": {"_type": "Image"},
        "label": {"names": NAMES, "_type": "ClassLabel"},
    }
    return described(table, features), pictures, labels


def main(out):
    expected = {}

    def write(name, table, pictures, labels, **options):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, **options)
        digest = [p and hashlib.sha256(p).hexdigest() for p in pictures]
        expected[name] = [[label, image] for label, image in zip(labels, digest)]

    for shard in range(2):
        table, pictures, labels = hub(23, shard)
        # Small pages and row groups, so that there are several of each; a dictionary that overflows.
        small = dict(row_group_size=9, data_page_size=600, dictionary_pagesize_limit=900, write_batch_size=2)
        write(f"hub/data/train-0000{shard}-of-00002.parquet", table, pictures, labels, **small)
    table, pictures, labels = hub(6)
    labels[2] = -1  # how the Hub marks a hidden label
    table = table.set_column(2, "label", pa.array(labels, pa.int64()))
    write("hub/data/test-00000-of-00001.parquet", table, pictures, labels)

    words = ["moth", "ant", "moth", "bee", "ant", None, "bee", "moth", "ant", "bee"] * 2
    pictures = [picture() for _ in words]
    table = pa.table({"image": images(pictures), "label": pa.array(words)})
    write("text/validation/0000.parquet", table, pictures, words, compression="gzip", data_page_version="2.0")

    labels = [10, 2, 2, 10, 10, 2, 10, 2]
    pictures = [picture() for _ in labels]
    fields = [pa.field("img", pa.binary(), nullable=False), pa.field("label", pa.int32(), nullable=False)]
    table = pa.table([pa.array(pictures), pa.array(labels, pa.int32())], schema=pa.schema(fields))
    write("plain/things.parquet", table, pictures, labels, compression="none", use_dictionary=False)
    write("packed/train.parquet", table, pictures, labels, compression="zstd")
    (out / "expected.json").write_text(json.dumps(expected, indent=0) + "\n")


main(FIXTURES / "parquet")
