"""Photographs in every format, as decoded by Pillow, and as preprocessed by transformers' Pillow
processors.

    python tests/reference/images.py        (Pillow, numpy, transformers; writes tests/fixtures/images/)

files/       small images in all formats and colour modes
decoded.npz  NAME: [H, W, 3] uint8, ImageOps.exif_transpose(Image.open(f)).convert("RGB"); one
             exception: 16-bit grey is cut to its upper byte (Pillow saturates the lower one)
resized.npz  "WxH-wxh-FILTER": [h, w, 3] uint8, Image.resize of the synthetic photograph W x H
processed/   CASE.json is a preprocessor_config.json, processed.npz holds
             "CASE/PHOTO": [3, H, W] float32 pixel_values (DINOv3 has no Pillow processor: its steps
             are written out here)
"""

import io
import json
import warnings

import numpy as np
from PIL import Image, ImageOps

from place import FIXTURES

OUT = FIXTURES / "images"
FILES = OUT / "files"


def photo(width, height, seed=0):
    """A synthetic photograph: waves, a hard edge, a little noise. The tests make the same one."""
    y, x = np.mgrid[0:height, 0:width].astype(np.int64)
    red = (x * 5 + y * 3 + seed * 17) % 256
    green = (x * x // 7 + y * 11) % 256
    blue = np.where((x // 4 + y // 3) % 2 == 0, 240, (x * 13 + y * 7 + seed) % 64)
    return np.stack([red, green, blue], -1).astype(np.uint8)


def smooth(width, height):
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    waves = [np.sin(6 * x + 2 * y), np.cos(5 * y - 3 * x), np.sin(9 * x * y + 1)]
    return np.stack([127.5 + 120 * w for w in waves], -1).round().astype(np.uint8)


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e


def files():
    rgb = Image.fromarray(photo(37, 23))
    soft = Image.fromarray(smooth(45, 35))
    grey = rgb.convert("L")
    alpha = Image.fromarray(np.dstack([photo(37, 23), photo(37, 23, 5)[..., 0]]))
    palette = rgb.quantize(37)
    cmyk = Image.fromarray(np.dstack([smooth(45, 35), smooth(45, 35)[::-1, :, 0]]), "CMYK")
    deep = (photo(37, 23).astype(np.uint16) << 8) + photo(37, 23, 9)

    for quality in (30, 75, 95):
        for sub in (0, 1, 2):
            soft.save(FILES / f"q{quality}-s{sub}.jpg", quality=quality, subsampling=sub)
    rgb.save(FILES / "sharp.jpg", quality=90, subsampling=2)
    soft.save(FILES / "progressive.jpg", quality=85, progressive=True)
    soft.save(FILES / "restart.jpg", quality=85, restart_marker_rows=1)
    soft.convert("L").save(FILES / "grey.jpg", quality=85)
    soft.save(FILES / "rgb.jpg", quality=85, keep_rgb=True)
    cmyk.save(FILES / "cmyk.jpg", quality=92)
    inks = (FILES / "cmyk.jpg").read_bytes()
    at = inks.index(b"Adobe") + 11  # the transform of Adobe's marker: 0 is CMYK, 2 is YCCK
    (FILES / "ycck.jpg").write_bytes(inks[:at] + b"\x02" + inks[at + 1 :])
    for o in range(1, 9):
        soft.save(FILES / f"turn{o}.jpg", quality=85, exif=exif(o))
    soft.save(FILES / "turn9.jpg", quality=85, exif=exif(9))
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>'
    soft.save(FILES / "turn-xmp.jpg", quality=85, xmp=xmp)
    thumb = exif(3)
    soft.save(FILES / "comment.jpg", quality=85, exif=thumb, comment=b"\xff\xd9 not the end")
    Image.fromarray(photo(1, 1)).save(FILES / "one.jpg")
    # Samplings that Pillow does not write: the same blocks arranged otherwise. The picture is jumbled.
    for name, width, height, sub, old, new in (("440", 48, 48, 1, 0x21, 0x12), ("411", 64, 64, 2, 0x22, 0x41)):
        buffer = io.BytesIO()
        Image.fromarray(smooth(width, height)).save(buffer, "JPEG", quality=85, subsampling=sub)
        data = bytearray(buffer.getvalue())
        at = data.index(b"\xff\xc0") + 11  # the first component's sampling in the frame
        assert data[at] == old
        data[at] = new
        (FILES / f"{name}.jpg").write_bytes(bytes(data))
    # Stray bytes before the frame and before the end: decoders warn and continue.
    data = (FILES / "q75-s2.jpg").read_bytes()
    at = data.index(b"\xff\xc0")
    (FILES / "stray.jpg").write_bytes(data[:at] + b"\0\1\2" + data[at:-2] + b"\x55\x55" + data[-2:])
    # A flat picture, which has the most pixels per byte.
    Image.new("L", (1024, 1024), 128).save(FILES / "flat.jpg", quality=75, progressive=True, optimize=True)
    # Odd sizes, where chroma is upsampled at the edges.
    for width, height in ((3, 255), (255, 3), (17, 31)):
        Image.fromarray(photo(width, height)).save(FILES / f"420-{width}x{height}.jpg", quality=90, subsampling=2)

    rgb.save(FILES / "rgb.png")
    grey.save(FILES / "grey.png")
    alpha.save(FILES / "rgba.png")
    alpha.convert("LA").save(FILES / "la.png")
    palette.save(FILES / "palette.png")
    rgb.quantize(13).save(FILES / "palette4.png", bits=4)
    palette.save(FILES / "palette-clear.png", transparency=3)
    grey.save(FILES / "grey-clear.png", transparency=100)
    rgb.save(FILES / "rgb-clear.png", transparency=(0, 0, 240))
    grey.convert("1").save(FILES / "one-bit.png")
    Image.fromarray(deep[..., 0]).save(FILES / "grey16.png")
    rgb.save(FILES / "turn6.png", exif=exif(6))
    Image.fromarray(photo(1, 1)).save(FILES / "one.png")
    png16(FILES / "rgb16.png", deep, 2)
    png16(FILES / "rgba16.png", np.dstack([deep, deep[..., :1]]), 6)

    rgb.save(FILES / "lossless.webp", lossless=True)
    alpha.save(FILES / "lossless-alpha.webp", lossless=True, exact=True)
    soft.save(FILES / "lossy.webp", quality=80)
    soft.save(FILES / "turn8.webp", lossless=True, exif=exif(8))
    rgb.save(FILES / "moving.webp", lossless=True, save_all=True, append_images=[Image.fromarray(photo(37, 23, 3))])

    for name, image in {"rgb": rgb, "grey": grey, "palette": palette, "one-bit": grey.convert("1"), "rgba": alpha}.items():
        image.save(FILES / f"{name}.bmp")

    rgb.save(FILES / "raw.tiff")
    for how in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
        rgb.save(FILES / f"{how}.tiff", compression=how)
    soft.save(FILES / "jpeg.tiff", compression="jpeg", quality=90)
    grey.save(FILES / "grey.tiff")
    grey.convert("1").save(FILES / "one-bit.tiff")
    palette.save(FILES / "palette.tiff", compression="tiff_lzw")
    cmyk.save(FILES / "cmyk.tiff")
    alpha.save(FILES / "rgba.tiff")
    alpha.convert("LA").save(FILES / "la.tiff")
    Image.fromarray(deep[..., 0]).save(FILES / "grey16.tiff")
    rgb.save(FILES / "turn5.tiff", exif=exif(5))
    palette.save(FILES / "turn6-palette.tiff", exif=exif(6))

    palette.save(FILES / "palette.gif")
    palette.save(FILES / "clear.gif", transparency=3)
    palette.save(FILES / "interlaced.gif", interlace=1)
    grey.save(FILES / "grey.gif")
    palette.save(FILES / "moving.gif", save_all=True, append_images=[Image.fromarray(photo(37, 23, 3)).quantize(20)])
    part(FILES / "part.gif", None)
    part(FILES / "part-clear.gif", 2)


def png16(path, values, kind):
    """A 16-bit colour PNG, which Pillow does not write."""
    import struct
    import zlib

    height, width = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    chunk = lambda tag, data: struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))
    head = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def part(path, clear):
    """A GIF whose only frame covers a part of its canvas."""
    small = Image.fromarray(photo(9, 6)).quantize(8)
    buffer = io.BytesIO()
    small.save(buffer, "GIF", **({} if clear is None else {"transparency": clear}))
    data = bytearray(buffer.getvalue())
    data[6:10] = bytes([20, 0, 15, 0])  # canvas 20 x 15
    at = data.index(b"\x2c\0\0\0\0\x09\0\x06\0")
    data[at + 1] = 5
    data[at + 3] = 4
    path.write_bytes(bytes(data))


def decoded():
    out = {}
    for path in sorted(FILES.iterdir()):
        image = ImageOps.exif_transpose(Image.open(path))
        if image.mode.startswith("I;16"):
            value = (np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)
            out[path.name] = np.repeat(value[..., None], 3, -1)
        else:
            out[path.name] = np.asarray(image.convert("RGB"))
    # Pillow 13 does not rotate a TIFF with a palette, but every other one.
    out["turn6-palette.tiff"] = np.rot90(out["palette.tiff"], -1)
    np.savez_compressed(OUT / "decoded.npz", **out)


def resized():
    cases = [
        ((37, 23), (16, 16)), ((37, 23), (61, 44)), ((37, 23), (37, 9)), ((37, 23), (12, 23)), ((37, 23), (37, 23)),
        ((64, 48), (28, 28)), ((1, 1), (7, 5)), ((200, 3), (5, 40)), ((3, 200), (40, 5)), ((5000, 2), (3, 3)),
        ((2, 2), (50, 50)), ((97, 89), (48, 44)), ((97, 89), (1, 1)),
    ]
    out = {}
    for source, to in cases:
        image = Image.fromarray(photo(*source))
        for number in range(6):
            key = f"{source[0]}x{source[1]}-{to[0]}x{to[1]}-{number}"
            out[key] = np.asarray(image.resize(to, resample=number))
    np.savez_compressed(OUT / "resized.npz", **out)


def processed():
    from transformers import BeitImageProcessorPil, BitImageProcessorPil, ViTImageProcessorPil
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    imagenet = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    half = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    flags = {"do_resize": True, "do_rescale": True, "do_normalize": True, "rescale_factor": 1 / 255}
    vit, beit, bit = ViTImageProcessorPil, BeitImageProcessorPil, BitImageProcessorPil
    # The four families as the Hub has them, then odd ones.
    cases = {
        "vit": (vit, {"do_normalize": True, "do_resize": True, **half, "size": 224, "feature_extractor_type": "ViTFeatureExtractor"}),
        "vit_mae": (vit, {"do_normalize": True, "do_resize": True, "feature_extractor_type": "ViTFeatureExtractor", **imagenet, "resample": 2, "size": 224}),
        "beit": (beit, {"crop_size": 224, "do_center_crop": False, "do_normalize": True, "do_resize": True, "feature_extractor_type": "BeitFeatureExtractor", **half, "resample": 2, "size": 224}),
        "dinov2": (bit, {**flags, "crop_size": {"height": 224, "width": 224}, "do_center_crop": True, "do_convert_rgb": True, "image_processor_type": "BitImageProcessor", **imagenet, "resample": 3, "size": {"shortest_edge": 256}}),
        "bare-vit": (vit, {"image_processor_type": "ViTImageProcessor", "size": 30}),
        "bare-beit": (beit, {"image_processor_type": "BeitImageProcessorFast", "size": {"height": 20, "width": 34}}),
        "bare-bit": (bit, {"image_processor_type": "BitImageProcessor", "size": 40, "crop_size": 31}),
        "deit": (DeiTImageProcessorPil, {"image_processor_type": "DeiTImageProcessor", "size": 40, "crop_size": [33, 22]}),
        "padded": (bit, {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 21}, "crop_size": {"height": 40, "width": 25}}),
        "crop-only": (bit, {"image_processor_type": "BitImageProcessor", "do_resize": False, "crop_size": {"height": 15, "width": 50}}),
        "edges": (bit, {"image_processor_type": "BitImageProcessor", "do_center_crop": False, "size": {"shortest_edge": 30, "longest_edge": 41}}),
        "edges-loose": (bit, {"image_processor_type": "BitImageProcessor", "do_center_crop": False, "size": {"shortest_edge": 17, "longest_edge": 90}}),
        "within": (vit, {"image_processor_type": "ViTImageProcessor", "size": {"max_height": 31, "max_width": 29}}),
        "raw": (vit, {"image_processor_type": "ViTImageProcessor", "size": 16, "do_rescale": False, "do_normalize": False}),
        "unscaled": (vit, {"image_processor_type": "ViTImageProcessor", "size": 16, "do_rescale": False, "image_mean": [127.5, 120.0, 100.0], "image_std": [60.0, 61.0, 62.0]}),
        "scaled": (vit, {"image_processor_type": "ViTImageProcessor", "size": 16, "do_normalize": False, "rescale_factor": 1 / 127.5}),
        "one-number": (vit, {"image_processor_type": "ViTImageProcessor", "size": 16, "image_mean": 0.4, "image_std": 0.3}),
        "nothing": (vit, {"image_processor_type": "ViTImageProcessor", "do_resize": False, "do_rescale": False, "do_normalize": False}),
        "null-crop": (bit, {"image_processor_type": "BitImageProcessor", "size": 19, "do_center_crop": None, "do_normalize": None}),
        "silent": (beit, {"image_processor_type": "BeitImageProcessor", "do_center_crop": None, "crop_size": None, "size": 18, "do_reduce_labels": True, "unknown": {"a": 1}}),
    }
    clip, siglip = CLIPImageProcessorPil, SiglipImageProcessorPil
    clips = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
    # CLIP and SigLIP as the Hub has them, but for the size; CLIP as it was and as it is.
    cases |= {
        "clip-old": (clip, {"crop_size": 22, "do_center_crop": True, "do_normalize": True, "do_resize": True, "feature_extractor_type": "CLIPFeatureExtractor", **clips, "resample": 3, "size": 22}),
        "clip": (clip, {**flags, "crop_size": {"height": 22, "width": 22}, "do_center_crop": True, "do_convert_rgb": True, "image_processor_type": "CLIPImageProcessor", **clips, "resample": 3, "size": {"shortest_edge": 22}}),
        "bare-clip": (clip, {"image_processor_type": "CLIPImageProcessorFast", "size": 25, "crop_size": 20}),
        "siglip": (siglip, {**flags, "do_convert_rgb": None, "image_processor_type": "SiglipImageProcessor", **half, "processor_class": "SiglipProcessor", "resample": 3, "size": {"height": 24, "width": 24}}),
        "bare-siglip": (siglip, {"image_processor_type": "SiglipImageProcessorFast", "size": 24}),
    }
    for number in range(6):
        cases[f"filter{number}"] = (vit, {"image_processor_type": "ViTImageProcessor", "size": 24, "resample": number})
    photos = {"wide": (64, 37), "tall": (29, 50), "square": (33, 33)}
    (OUT / "processed").mkdir(exist_ok=True)
    out = {}
    for name, (kind, config) in cases.items():
        (OUT / "processed" / f"{name}.json").write_text(json.dumps(config, indent=1) + "\n")
        processor = kind.from_dict(dict(config))
        big = name in ("vit", "vit_mae", "beit", "dinov2")
        for label, shape in photos.items():
            if big and label != "wide":
                continue
            # The processor is told the channel order, so that it does not guess.
            values = processor(Image.fromarray(photo(*shape)), do_convert_rgb=True)["pixel_values"][0]
            out[f"{name}/{label}"] = np.asarray(values, dtype=np.float32)
    name, config = "dinov3", {**flags, "data_format": "channels_first", "image_processor_type": "DINOv3ViTImageProcessorFast", **imagenet, "resample": 2, "size": {"height": 24, "width": 24}}
    (OUT / "processed" / f"{name}.json").write_text(json.dumps(config, indent=1) + "\n")
    for label, shape in photos.items():
        out[f"{name}/{label}"] = dinov3(photo(*shape), config)
    np.savez_compressed(OUT / "processed.npz", **out)


def dinov3(pixels, config):
    """What DINOv3ViTImageProcessor does, without torchvision: rescale, then resize in float32."""
    import torch

    x = torch.from_numpy(pixels).permute(2, 0, 1)[None].float() * config["rescale_factor"]
    size = (config["size"]["height"], config["size"]["width"])
    x = torch.nn.functional.interpolate(x, size=size, mode="bilinear", antialias=True, align_corners=False)
    mean, std = (torch.tensor(config[name])[:, None, None] for name in ("image_mean", "image_std"))
    return ((x[0] - mean) / std).numpy()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    FILES.mkdir(parents=True, exist_ok=True)
    files()
    decoded()
    resized()
    processed()
