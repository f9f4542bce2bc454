"""Small files with false or extreme claims, one for each way in which a reader could be made to hang or to exhaust memory.

    python tests/reference/hostile.py       (writes tests/fixtures/hostile/)

NAME.parquet  good.parquet is valid; each of the others differs from it in one claim
NAME.jpg      a second frame behind `FF 00`; few bytes of many pixels; many scans
weights/      a ViT of six layers whose 1.4 GB are one number, repeated
"""

import json
import struct
import zipfile

from place import FIXTURES

OUT = FIXTURES / "hostile"
MOST = (1 << 31) - 1

# Thrift's compact protocol: a value is its type and its bytes.


def varint(n):
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def number(n):
    return 5, varint((n << 1) ^ (n >> 63))


def long(n):
    return 6, number(n)[1]


def text(value):
    return 8, varint(len(value)) + value


def items(kind, values, claim=None):
    """A list; `claim` is the number of entries that it declares."""
    return 9, bytes([0xF0 | kind]) + varint(len(values) if claim is None else claim) + b"".join(values)


def struct_of(fields):
    out, before = b"", 0
    for field, (kind, value) in fields.items():
        out, before = out + bytes([(field - before) << 4 | kind]) + value, field
    return out + b"\0"


def nested(fields):
    return 12, struct_of(fields)


# Parquet: a column of bytes (images), one of labels.


def page(data, kind=0, unpacked=None, encoding=0, count=4, more=None):
    header = {1: number(kind), 2: number(len(data) if unpacked is None else unpacked), 3: number(len(data))}
    if kind == 0:
        header[5] = nested({1: number(count), 2: number(encoding), 3: number(3), 4: number(3)})
    else:
        header[7] = nested({1: number(count), 2: number(0)})
    return struct_of(header | (more or {})) + data


def parquet(images=None, labels=None, rows=4, packing=0, label_type=1, columns=None, more=None):
    """`images` and `labels` are pages, `columns` the schema's entries, `more` further fields of the metadata."""
    images = page(b"".join(struct.pack("<I", 4) + b"\x89PNG" for _ in range(4))) if images is None else images
    labels = page(struct.pack("<4i", 0, 1, 0, 1)) if labels is None else labels
    out = b"PAR1"

    def chunk(name, kind, pages):
        nonlocal out
        start, out = len(out), out + pages
        about = {1: number(kind), 2: items(5, [number(0)[1]]), 3: items(8, [text(name)[1]]), 4: number(packing)}
        about |= {5: long(4), 6: long(len(pages)), 7: long(len(pages)), 9: long(start)}
        return struct_of({2: long(start), 3: nested(about)})

    chunks = [chunk(b"image", 6, images), chunk(b"label", label_type, labels)]
    schema = columns or [
        struct_of({4: text(b"schema"), 5: number(2)}),
        struct_of({1: number(6), 3: number(0), 4: text(b"image")}),
        struct_of({1: number(label_type), 3: number(0), 4: text(b"label")} | ({6: number(0)} if label_type == 6 else {})),
    ]
    group = struct_of({1: items(12, chunks), 2: long(len(out)), 3: long(rows)})
    footer = struct_of({1: number(2), 2: items(12, schema), 3: long(rows), 4: items(12, [group])} | (more or {}))
    return out + footer + struct.pack("<I", len(footer)) + b"PAR1"


def parquets():
    group = lambda name, inner: struct_of({3: number(0), 4: text(name), 5: number(inner)})
    leaf = lambda kind, name: struct_of({1: number(kind), 3: number(0), 4: text(name)})
    image, label = leaf(6, b"image"), leaf(1, b"label")
    dictionary = lambda value, run: page(struct.pack("<I", len(value)) + value, 2, count=1) + page(
        b"\1" + varint(run << 1) + b"\0", encoding=8, count=run
    )
    moth = b"moth" * 5000
    return {
        "good": parquet(),
        # Lists without content: of doubles in a page's header, of booleans (no byte each) anywhere.
        "page-list": parquet(labels=page(bytes(16), more={20: (9, b"\xf7" + varint(MOST))})),
        "page-flags": parquet(labels=page(bytes(16), more={20: (9, b"\xf2" + varint(MOST))})),
        "flags": parquet(more={10: items(9, [b"\xf2" + varint(MOST)] * 50)}),
        # The same within a string, whose length of 28 bytes reads as the header of a list where the reader expects one.
        "hidden-flags": parquet(more={5: text((b"\x49\xf2" + varint(MOST)) * 4)}),
        "groups": parquet(more={5: items(12, [], MOST)}),
        "children": parquet(columns=[struct_of({4: text(b"schema"), 5: number(MOST)}), image, label]),
        "depth": parquet(columns=[group(b"a", 2)] + [group(b"a", 1)] * 5000 + [image, label]),
        "rows": parquet(rows=1 << 40),
        # One image and one label, repeated for all rows by a run of 2^30, which the format allows.
        "runs": parquet(dictionary(b"\x89PNG", 1 << 30), dictionary(struct.pack("<i", 0), 1 << 30), rows=1 << 30),
        "dictionary": parquet(labels=page(bytes(16), 2, count=MOST) + page(bytes(8), encoding=8)),
        "snappy": parquet(labels=page(b"\x80\x80\x80\x80\x01\0", unpacked=1 << 28), packing=1),
        "lengths": parquet(labels=page(b"\x80\x01\x04" + varint(1 << 40) + b"\0", encoding=6), label_type=6),
        # A label of 20 kB for each of 20,000 rows, stored once.
        "labels": parquet(dictionary(b"\x89PNG", 20_000), dictionary(moth, 20_000), rows=20_000, label_type=6),
    }


# JPEG.


def segment(kind, content):
    return bytes([0xFF, kind]) + struct.pack(">H", len(content) + 2) + content


def frame(width, height, kind=0xC2, components=1):
    parts = b"".join(bytes([i + 1, 0x11, 0]) for i in range(components))
    return segment(kind, struct.pack(">BHHB", 8, height, width, components) + parts)


def jpegs():
    tables = segment(0xDB, bytes([0] + [1] * 64))
    huffman = lambda place, symbol: segment(0xC4, bytes([place, 1] + [0] * 15 + [symbol]))  # one code: a zero bit
    scan = lambda first, last, bits: segment(0xDA, bytes([1, 1, 0, first, last, bits]))
    start, end = b"\xff\xd8", b"\xff\xd9"
    # A reader that takes `FF 00` for a segment skips the frame of 20000 x 20000 in it.
    hidden = frame(20_000, 20_000) + b"\xff\xe5" + struct.pack(">H", 2 + len(frame(16, 16)))
    second = b"\xff\x00" + struct.pack(">H", len(hidden) + 2) + hidden + frame(16, 16)
    first = tables + huffman(0, 0) + scan(0, 0, 0)
    # CMYK of 10,000 x 10,000 pixels in 1700 bytes.
    inks = segment(0xEE, b"Adobe\0\x64\0\0\0\0\0") + frame(10_000, 10_000, 0xC0, 4) + tables + huffman(0, 0) + huffman(16, 0)
    inks += segment(0xDA, bytes([4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0])) + bytes(1500)
    # 3000 x 3000 with scans that refine nothing by one bit: runs of 2^15 - 1 empty blocks.
    blocks = (3000 // 8) ** 2
    runs = "".join("0" + format((1 << 14) - 1, "014b") for _ in range(blocks // ((1 << 15) - 1) + 1))
    runs = int(runs + "1" * (-len(runs) % 8), 2).to_bytes((len(runs) + 7) // 8, "big").replace(b"\xff", b"\xff\0")
    many = frame(3000, 3000) + tables + huffman(0, 0) + huffman(16, 0xE0) + scan(0, 0, 0) + bytes(blocks // 8 + 1)
    many += scan(1, 63, 0x0D) + runs
    many += b"".join(scan(1, 63, (13 - i % 13) << 4 | (12 - i % 13)) + runs for i in range(300))
    return {"hidden-frame": start + second + first + bytes(100) + end, "few-bytes": start + inks + end, "scans": start + many + end}


# Weights: the pickle of a state dict whose tensors all have strides of 0.


def state_dict(shapes):
    string = lambda value: b"X" + struct.pack("<I", len(value)) + value.encode()
    integer = lambda n: b"J" + struct.pack("<i", n)
    tuple_of = lambda values: b"(" + b"".join(values) + b"t"
    out = b"\x80\x02}("
    for name, shape in shapes.items():
        storage = tuple_of([string("storage"), b"ctorch\nFloatStorage\n", string("0"), string("cpu"), integer(1)]) + b"Q"
        strides = tuple_of([integer(0)] * len(shape))
        view = tuple_of([storage, integer(0), tuple_of(map(integer, shape)), strides, b"\x89", b"}"])
        out += string(name) + b"ctorch._utils\n_rebuild_tensor_v2\n" + view + b"R"
    return out + b"u."


def weights():
    wide, layers = 3072, 6
    shapes = {
        "vit.embeddings.cls_token": (1, 1, wide),
        "vit.embeddings.position_embeddings": (1, 197, wide),
        "vit.embeddings.patch_embeddings.projection.weight": (wide, 3, 16, 16),
        "vit.embeddings.patch_embeddings.projection.bias": (wide,),
        "vit.layernorm.weight": (wide,),
        "vit.layernorm.bias": (wide,),
    }
    for layer in range(layers):
        products = {f"attention.attention.{name}": (wide, wide) for name in ("query", "key", "value")}
        products |= {"attention.output.dense": (wide, wide), "intermediate.dense": (wide, wide), "output.dense": (wide, wide)}
        for name, shape in products.items():
            shapes[f"vit.encoder.layer.{layer}.{name}.weight"] = shape
            shapes[f"vit.encoder.layer.{layer}.{name}.bias"] = shape[:1]
        for name in ("layernorm_before", "layernorm_after"):
            shapes |= {f"vit.encoder.layer.{layer}.{name}.{part}": (wide,) for part in ("weight", "bias")}
    folder = OUT / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as file:
        for name, content in {"data.pkl": state_dict(shapes), "data/0": struct.pack("<f", 0.5), "version": b"3\n"}.items():
            file.writestr(zipfile.ZipInfo("m/" + name), content)
    config = {"model_type": "vit", "hidden_size": wide, "num_hidden_layers": layers, "num_attention_heads": 24}
    config |= {"intermediate_size": wide, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "image_size": 224}
    config |= {"patch_size": 16, "num_channels": 3, "qkv_bias": True}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    vit = {"image_processor_type": "ViTImageProcessor", "size": 224}
    (folder / "preprocessor_config.json").write_text(json.dumps(vit) + "\n")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    for ending, files in {"parquet": parquets(), "jpg": jpegs()}.items():
        for name, content in files.items():
            (OUT / f"{name}.{ending}").write_bytes(content)
    weights()
