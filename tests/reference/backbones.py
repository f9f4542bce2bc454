"""Tokens of small vision transformers, stage by stage, as Hugging Face transformers computes them (EVA-02: `eva02.py`).

Run from the root of the repository, with torch, transformers and safetensors installed:

    python tests/reference/backbones.py [FOLDER OF A REAL vit-tiny-patch16-224]

It rewrites `tests/fixtures/backbones/`: for each case a folder as the Hub lays it out
(`config.json`, `model.safetensors`, all parameters random) and `stages.safetensors` with
`{height}x{width}.{l}`, `[2, T, d]`: the embeddings (l = 0), the tokens after layer l, and `last`,
the `last_hidden_state`, of the images 0 and 1. Without the real backbone its fixture
(`vit-tiny.safetensors`) is left as it is. `rollout.safetensors`
has `{height}x{width}.{l}`, `[2, N]`, attention rollout after layer l, computed in float64;
`left.safetensors` the `last_hidden_state` of image 0 where only some patches are left.
`vit-base.safetensors` holds some tokens of a ViT-B/16
whose weights are nowhere stored: they, and all images, come from a formula that
`tests/suite/backbones.rs` knows too.

The formula. `hash(name, i)`, a number in [-1, 1), for the element `i` of the array `name`:
with s the 32-bit FNV-1a hash of the name in UTF-8, all modulo 2^32,

    x = i * 0x9E3779B1 + s;  x ^= x >> 16;  x *= 0x7FEB352D;  x ^= x >> 15;  x *= 0x846CA68B;
    x ^= x >> 16;  hash = x / 2^31 - 1

in float64, then rounded to float32 after scaling. Pixels of image k are `hash("image.{k}", i)`,
i counting row-major through [3, H, W]. Weights are offset + scale * hash(name, i):

    layer norm weights            1, 0.1
    biases                        0, 0.05
    cls token, positions          0, 0.5
    matrices and the projection   0, sqrt(3 / fan-in)
"""

import copy
import json
import shutil
import sys
import tempfile
from pathlib import Path

import eva02
import numpy as np
import torch
from images import photo
from place import FIXTURES
from random_weights import weights
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import (
    BeitConfig,
    BeitForImageClassification,
    BeitForMaskedImageModeling,
    BeitModel,
    CLIPConfig,
    CLIPModel,
    CLIPVisionConfig,
    CLIPVisionModel,
    CLIPVisionModelWithProjection,
    Data2VecVisionConfig,
    Data2VecVisionForImageClassification,
    Data2VecVisionModel,
    DeiTConfig,
    DeiTForImageClassificationWithTeacher,
    DeiTModel,
    Dinov2Config,
    Dinov2Model,
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersForImageClassification,
    Dinov2WithRegistersModel,
    DINOv3ViTConfig,
    DINOv3ViTModel,
    IJepaConfig,
    IJepaForImageClassification,
    IJepaModel,
    SiglipConfig,
    SiglipModel,
    SiglipVisionConfig,
    SiglipVisionModel,
    ViTConfig,
    ViTForImageClassification,
    ViTForMaskedImageModeling,
    ViTMAEConfig,
    ViTMAEForPreTraining,
    ViTMAEModel,
    ViTModel,
    ViTMSNConfig,
    ViTMSNModel,
)
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

OUT = FIXTURES / "backbones"


def hashed(name, count):
    """`hash(name, i)` for i = 0 .. count - 1, in float64."""
    seed = 0x811C9DC5
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x01000193) & 0xFFFFFFFF
    x = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(seed)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x.astype(np.float64) / 2.0**31 - 1.0


def image(k, height, width):
    pixels = hashed(f"image.{k}", 3 * height * width).astype(np.float32)
    return torch.from_numpy(pixels).reshape(3, height, width)


def randomise(model, seed):
    """Gives every parameter a value other than its initial zero or one."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name and name.endswith("weight"):
            parameter.data = 1 + 0.2 * noise
        elif "lambda" in name:
            parameter.data = 0.5 + 0.3 * noise
        elif parameter.dim() >= 2 and "token" not in name and "position" not in name:
            parameter.data = noise * (1.5 / parameter[0].numel() ** 0.5)
        else:
            parameter.data = 0.5 * noise


INTERPOLATE_WHEN_ASKED = (
    *(ViTModel, ViTMAEModel, ViTMSNModel, DeiTModel, IJepaModel),
    *(CLIPVisionModel, SiglipVisionModel),
)


def layers_of(encoder):
    """The list of transformer layers of a model, whatever its attribute is called."""
    for holder in (getattr(encoder, "encoder", None), getattr(encoder, "model", None), encoder):
        for name in ("layer", "layers"):
            if hasattr(holder, name):
                return list(getattr(holder, name))
    raise AttributeError(f"{type(encoder).__name__} has no layers")


def stages(model, sizes, layers):
    """The tokens of two images of each size after every stage."""
    tokens = {}
    for height, width in sizes:
        pixels = torch.stack([image(0, height, width), image(1, height, width)])
        seen = []
        def after(_, __, out):  # data2vec's layers give a tuple
            seen.append(out[0] if isinstance(out, tuple) else out)

        hooks = [layer.register_forward_hook(after) for layer in layers]
        first = layers[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
        options = {}
        if isinstance(model, ViTMAEModel):  # noise that increases keeps the order of the patches
            patch = model.config.patch_size
            count = (height // patch) * (width // patch)
            options["noise"] = torch.arange(count).repeat(2, 1) / count
        if isinstance(model, INTERPOLATE_WHEN_ASKED):
            options["interpolate_pos_encoding"] = True
        with torch.no_grad():
            last = model(pixels, **options).last_hidden_state
        for hook in [*hooks, first]:
            hook.remove()
        assert len(seen) == len(layers) + 1
        for stage, out in [*enumerate(seen), ("last", last)]:
            tokens[f"{height}x{width}.{stage}"] = out.contiguous().clone()
    return tokens


def rollouts(model, sizes):
    """Attention rollout of the images of each size after every layer, `[2, N]` (section 11)."""
    model = copy.deepcopy(model).double()
    found = {}
    for height, width in sizes:
        pixels = torch.stack([image(0, height, width), image(1, height, width)]).double()
        patch = model.config.patch_size
        count = (height // patch) * (width // patch)
        options = {}
        if isinstance(model, ViTMAEModel):
            options["noise"] = torch.arange(count).repeat(2, 1).double() / count
        if isinstance(model, INTERPOLATE_WHEN_ASKED):
            options["interpolate_pos_encoding"] = True
        with torch.no_grad():
            attentions = model(pixels, **options, output_attentions=True).attentions
        tokens = attentions[0].shape[-1]
        product = torch.eye(tokens).double()
        for layer, attention in enumerate(attentions, 1):
            product = (attention.mean(1) + torch.eye(tokens)) / 2 @ product
            found[f"{height}x{width}.{layer}"] = product[:, tokens - count :, tokens - count :].mean(1)
    return {name: value.float().contiguous() for name, value in found.items()}


def left_sets(count):
    """Sets of patches that are kept, of `count`: two sets of the same length, and a single patch."""
    some = [i for i in range(count) if i % 3 != 1]
    return [some, list(range(count - len(some), count)), [count // 2]]


def left(model, sizes, prefix):
    """`last_hidden_state` of image 0 with only some patches kept: attention to the others is masked, so that they cannot
    influence the rest."""
    softmax, tokens = torch.nn.functional.softmax, {}
    for height, width in sizes:
        side = model.config.patch_size
        count = (height // side) * (width // side)
        options = {"interpolate_pos_encoding": True} if isinstance(model, INTERPOLATE_WHEN_ASKED) else {}
        if isinstance(model, ViTMAEModel):
            options["noise"] = torch.arange(count)[None] / count
        for at, own in enumerate(left_sets(count)):
            gone = torch.ones(prefix + count, dtype=bool)
            gone[:prefix] = False
            gone[[prefix + i for i in own]] = False
            calls = []

            def blind(logits, *args, **kwargs):
                assert logits.shape[-1] == len(gone)
                calls.append(1)
                return softmax(logits.masked_fill(gone, -torch.inf), *args, **kwargs)

            torch.nn.functional.softmax = blind
            try:
                with torch.no_grad():
                    last = model(image(0, height, width)[None], **options).last_hidden_state[0]
            finally:
                torch.nn.functional.softmax = softmax
            assert len(calls) >= len(layers_of(model))  # SigLIP pools its tokens by attention, too
            tokens[f"{height}x{width}.{at}"] = last[~gone].contiguous()
    return tokens


def case(name, whole, encoder_class, sizes, seed):
    """Writes one case: `whole` is the model whose file is written, including its head."""
    folder = OUT / name
    randomise(whole, seed)
    whole.save_pretrained(folder)
    encoder = encoder_class.from_pretrained(folder, attn_implementation="eager").eval()
    tokens = stages(encoder, sizes, layers_of(encoder))
    if encoder_class is ViTMAEModel:
        height, width = sizes[0]
        count = (height // encoder.config.patch_size) * (width // encoder.config.patch_size)
        noise = torch.from_numpy(hashed("noise", count)).float()[None]
        with torch.no_grad():
            out = encoder(image(0, height, width)[None], noise=noise)
        tokens["shuffled.order"] = torch.argsort(noise, dim=1)[0].float()
        tokens["shuffled.last"] = out.last_hidden_state
    save_file(tokens, folder / "stages.safetensors")
    save_file(rollouts(encoder, sizes), folder / "rollout.safetensors")
    count = (sizes[0][0] // encoder.config.patch_size) * (sizes[0][1] // encoder.config.patch_size)
    save_file(left(encoder, sizes, tokens["{}x{}.last".format(*sizes[0])].shape[1] - count), folder / "left.safetensors")


def tiny():
    """Every family, and every choice its `config.json` offers."""
    common = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3)
    vit = dict(**common, intermediate_size=48, image_size=16, patch_size=4)
    dino = dict(**common, mlp_ratio=2, image_size=16, patch_size=4)
    case("vit", ViTForImageClassification(ViTConfig(**vit)), ViTModel, [(16, 16), (24, 12)], 1)
    case(
        "vit-no-bias",
        ViTForMaskedImageModeling(
            ViTConfig(
                **vit | dict(image_size=[16, 16]),
                qkv_bias=False,
                hidden_act="gelu_new",
                layer_norm_eps=1e-5,
                encoder_stride=2,
            )
        ),
        ViTModel,
        [(16, 16)],
        2,
    )
    mae = ViTMAEConfig(
        **vit,
        mask_ratio=0.0,
        decoder_hidden_size=16,
        decoder_num_hidden_layers=1,
        decoder_num_attention_heads=2,
        decoder_intermediate_size=16,
    )
    case("vit-mae", ViTMAEForPreTraining(mae), ViTMAEModel, [(16, 16), (20, 28)], 3)
    relative = BeitConfig(**vit, use_relative_position_bias=True)
    case("beit", BeitForImageClassification(relative), BeitModel, [(16, 16), (24, 12)], 4)
    shared = BeitConfig(
        **vit,
        use_shared_relative_position_bias=True,
        use_absolute_position_embeddings=True,
        use_mask_token=True,
        use_mean_pooling=False,
        vocab_size=8,
    )
    case("beit-shared", BeitForMaskedImageModeling(shared), BeitModel, [(16, 16), (12, 24)], 5)
    oblong = BeitConfig(
        **vit | dict(image_size=[12, 20]),
        use_relative_position_bias=True,
        use_shared_relative_position_bias=True,
        layer_scale_init_value=0.0,
    )
    case("beit-oblong", BeitModel(oblong), BeitModel, [(12, 20), (16, 16)], 6)
    case("dinov2", Dinov2Model(Dinov2Config(**dino)), Dinov2Model, [(16, 16), (24, 20), (12, 8)], 7)
    gated = Dinov2Config(**dino | dict(num_hidden_layers=3), use_swiglu_ffn=True, use_mask_token=False)
    case("dinov2-swiglu", Dinov2Model(gated), Dinov2Model, [(16, 16)], 8)
    registers = Dinov2WithRegistersConfig(**dino, num_register_tokens=3)
    whole = Dinov2WithRegistersForImageClassification(registers)
    case("dinov2-registers", whole, Dinov2WithRegistersModel, [(16, 16), (24, 20), (12, 8)], 9)
    further(vit)


def further(vit):
    """The families that were added later, and models that the Hub stores as ViT."""
    case("vit-pooler", ViTModel(ViTConfig(**vit)), ViTModel, [(16, 16)], 10)  # as DINO, MoCo v3
    case("vit-msn", ViTMSNModel(ViTMSNConfig(**vit)), ViTMSNModel, [(16, 16), (24, 12)], 11)
    teacher = DeiTForImageClassificationWithTeacher(DeiTConfig(**vit))
    case("deit", teacher, DeiTModel, [(16, 16), (24, 12)], 12)
    jepa = IJepaForImageClassification(IJepaConfig(**vit))
    case("ijepa", jepa, IJepaModel, [(16, 16), (24, 12)], 13)
    data2vec = Data2VecVisionConfig(**vit, use_relative_position_bias=True, use_mean_pooling=False)
    whole = Data2VecVisionForImageClassification(data2vec)
    case("data2vec", whole, Data2VecVisionModel, [(16, 16), (24, 12)], 14)
    dino = DINOv3ViTConfig(**vit, num_register_tokens=4)
    case("dinov3", DINOv3ViTModel(dino), DINOv3ViTModel, [(16, 16), (24, 20), (12, 8)], 15)
    gated = DINOv3ViTConfig(
        **vit, use_gated_mlp=True, hidden_act="silu", query_bias=False, value_bias=False, mlp_bias=False, rope_theta=30.0
    )
    case("dinov3-gated", DINOv3ViTModel(gated), DINOv3ViTModel, [(16, 16), (12, 8)], 16)
    text = dict(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    text |= dict(max_position_embeddings=4, bos_token_id=6, eos_token_id=7)
    clip = CLIPConfig(text_config=text | dict(projection_dim=8), vision_config=vit | dict(projection_dim=8), projection_dim=8)
    case("clip", CLIPModel(clip), CLIPVisionModel, [(16, 16), (24, 12)], 17)
    older(OUT / "clip", vision_model=17, text_model=4)
    vision = CLIPVisionConfig(**vit | dict(hidden_act="gelu"), projection_dim=8)
    case("clip-vision", CLIPVisionModelWithProjection(vision), CLIPVisionModel, [(16, 16)], 18)
    case("siglip", SiglipModel(SiglipConfig(text_config=text, vision_config=vit)), SiglipVisionModel, [(16, 16), (24, 12)], 19)
    remainder()
    case("siglip-vision", SiglipVisionModel(SiglipVisionConfig(**vit)), SiglipVisionModel, [(16, 16)], 20)


def rotary_with_positions():
    """EVA-02, which transformers lacks: without inner norms, and with both of them."""
    heads, width, units, layers = 3, 24, 64, 2
    common = dict(model_type="eva02", hidden_size=width, num_attention_heads=heads, num_hidden_layers=layers)
    common |= dict(intermediate_size=units, image_size=16, patch_size=4)
    within = dict(use_attention_norm=True, use_mlp_norm=True, use_mean_pooling=True, rope_theta=300.0, rope_reference_size=3)
    for name, seed, config, sizes in (
        ("eva02", 22, {}, [(16, 16), (24, 12)]),
        ("eva02-norms", 23, within, [(16, 16), (12, 24), (24, 20)]),
    ):
        folder = OUT / name
        folder.mkdir(parents=True)
        inner, last = (("attn", "mlp"), "fc_norm") if config else ((), "norm")
        state = weights(seed, **eva02.shapes(width, units, layers, inner=inner, last=last))
        state = {key: value for key, value in state.items() if not key.startswith("fc_norm")}
        save_file(eva02.renamed(state, eva02.HUB), folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(common | config))
        rotary = dict(base=300.0, reference=3) if config else {}
        tokens, rollout, removed = {}, {}, {}
        for height, across in sizes:
            count = (height // 4) * (across // 4)
            pixels = torch.stack([image(0, height, across), image(1, height, across)])
            stages, attentions = eva02.run(state, pixels, heads, **rotary)
            tokens |= {f"{height}x{across}.{at}": x for at, x in zip([*range(layers + 1), "last"], stages, strict=True)}
            product = torch.eye(1 + count).double()
            for layer, attention in enumerate(attentions, 1):
                product = (attention.mean(1) + torch.eye(1 + count)) / 2 @ product
                rollout[f"{height}x{across}.{layer}"] = product[:, 1:, 1:].mean(1)
            for at, own in enumerate(left_sets(count)):
                gone = torch.ones(1 + count, dtype=bool)
                gone[[0, *(1 + i for i in own)]] = False
                last = eva02.run(state, pixels[:1], heads, gone, **rotary)[0][-1][0]
                removed[f"{height}x{across}.{at}"] = last[~gone]
        for file, found in (("stages", tokens), ("rollout", rollout), ("left", removed)):
            found = {name: value.float().contiguous() for name, value in found.items()}
            save_file(found, folder / f"{file}.safetensors")


def remainder():
    """From a photograph to tokens, where patches do not divide the image (as SigLIP's 14 does not 384)."""
    folder = OUT / "siglip-remainder"
    config = SiglipVisionConfig(**TINY, image_size=18, patch_size=4)
    model = SiglipVisionModel(config).eval()
    randomise(model, 21)
    model.save_pretrained(folder)
    processor = SiglipImageProcessorPil(size={"height": 18, "width": 18})
    processor.save_pretrained(folder)
    tokens = {}
    for size in ((18, 18), (25, 31)):
        processor.size = {"height": size[0], "width": size[1]}
        pixels = torch.from_numpy(processor(photo(64, 37), return_tensors="np")["pixel_values"])
        assert pixels.shape[2:] == size
        with torch.no_grad():
            out = model(pixels, interpolate_pos_encoding=size != (18, 18))
        tokens[f"{size[0]}x{size[1]}"] = out.last_hidden_state[0].contiguous()
    save_file(tokens, folder / "stages.safetensors")


def older(folder, **positions):
    """Files written before transformers 4.31 also hold `position_ids`."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    for model, count in positions.items():
        weights[f"{model}.embeddings.position_ids"] = torch.arange(count)[None]
    save_file(weights, path, metadata={"format": "pt"})


TINY = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
PICKED = [0, 1, 14, 50, 99, 143, 180, 196]  # token 0 is CLS


def picked(folder, name):
    """Some tokens of the last hidden state of image 0."""
    model = ViTModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="eager").eval()
    with torch.no_grad():
        last = model(image(0, 224, 224)[None]).last_hidden_state[0]
    save_file({"tokens": last[PICKED].contiguous(), "index": torch.tensor(PICKED).float()}, OUT / name)


def base():
    """A ViT-B/16 by formula."""
    with tempfile.TemporaryDirectory() as folder:
        model = ViTModel(ViTConfig(), add_pooling_layer=False)
        model.save_pretrained(folder)  # for the names
        weights = {}
        with safe_open(Path(folder) / "model.safetensors", "np") as file:
            for name in file.keys():
                shape = file.get_slice(name).get_shape()
                if "layernorm" in name and name.endswith("weight"):
                    offset, scale = 1.0, 0.1
                elif name.endswith("bias"):
                    offset, scale = 0.0, 0.05
                elif name.startswith("embeddings.") and "projection" not in name:
                    offset, scale = 0.0, 0.5
                else:
                    offset, scale = 0.0, (3.0 / np.prod(shape[1:])) ** 0.5
                values = offset + scale * hashed(name, int(np.prod(shape)))
                weights[name] = torch.from_numpy(values.astype(np.float32)).reshape(shape)
        save_file(weights, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        picked(folder, "vit-base.safetensors")


def main():
    torch.manual_seed(0)
    OUT.mkdir(parents=True, exist_ok=True)
    for folder in OUT.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    tiny()
    rotary_with_positions()
    base()
    if len(sys.argv) > 1:
        picked(sys.argv[1], "vit-tiny.safetensors")
    for path in OUT.glob("*/config.json"):  # the fields that differ between releases of transformers
        config = json.loads(path.read_text())
        config.pop("transformers_version", None)
        path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
