//! Families of backbones: where `config.json` holds the fields, weights beside the encoder's, sizes that no patch divides.

use std::path::Path;

use burn::tensor::Device;
use safetensors::SafeTensors;
use safetensors::tensor::{TensorView, serialize_to_file};
use ssmprobe::model::backbone::config::{Activation, Config};
use ssmprobe::model::backbone::preprocess::{self, Preprocessor, Size};
use ssmprobe::model::backbone::rotary::Rotary;
use ssmprobe::model::backbone::{Backbone, FAMILIES};

use super::backbones::{TOLERANCE, difference, fixtures, flat, image, read};
use super::images::photo;

fn config(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), text).unwrap();
    Config::open(folder.path()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_vision_model_is_found_in_the_config_of_both() {
    // As google/siglip-base-patch16-224 has it: everything is left out.
    let siglip =
        config(r#"{"model_type": "siglip", "vision_config": {"model_type": "siglip_vision_model"}}"#);
    assert_eq!((siglip.width, siglip.grid().len(), siglip.prefix_tokens()), (768, 196, 0));
    assert_eq!((siglip.activation, siglip.epsilon, siglip.final_norm), (Activation::GeluTanh, 1e-6, true));
    let clip = config(r#"{"model_type": "clip", "hidden_size": 5, "vision_config_dict": null}"#);
    assert_eq!((clip.width, clip.grid().len(), clip.prefix_tokens()), (768, 49, 1));
    assert_eq!((clip.activation, clip.epsilon, clip.final_norm), (Activation::QuickGelu, 1e-5, false));
    // Older files hold the vision configuration twice; transformers use `vision_config_dict` alone.
    let twice = config(
        r#"{"model_type": "clip", "vision_config_dict": {"hidden_size": 1024, "num_attention_heads": 16},
            "vision_config": {"hidden_size": 24, "patch_size": 14}}"#,
    );
    assert_eq!((twice.width, twice.heads, twice.patch), (1024, 16, [32, 32]));
}

/// As transformers 5.24 has it: `ViTConfig()` and its like.
#[test]
fn what_a_config_leaves_out_is_as_in_transformers() {
    use Activation::{Gelu, GeluTanh, QuickGelu};
    let all = [
        ("vit", [768, 12, 3072, 16], Gelu, 1e-12, 1, true),
        ("vit_mae", [768, 12, 3072, 16], Gelu, 1e-12, 1, true),
        ("vit_msn", [768, 12, 3072, 16], Gelu, 1e-6, 1, true),
        ("deit", [768, 12, 3072, 16], Gelu, 1e-12, 2, true),
        ("ijepa", [768, 12, 3072, 16], Gelu, 1e-12, 0, true),
        ("beit", [768, 12, 3072, 16], Gelu, 1e-12, 1, false),
        ("data2vec-vision", [768, 12, 3072, 16], Gelu, 1e-12, 1, false),
        ("dinov2", [768, 12, 3072, 14], Gelu, 1e-6, 1, true),
        ("dinov2_with_registers", [768, 12, 3072, 16], Gelu, 1e-6, 5, true),
        ("dinov3_vit", [384, 6, 1536, 16], Gelu, 1e-5, 1, true),
        ("siglip_vision_model", [768, 12, 3072, 16], GeluTanh, 1e-6, 0, true),
        ("clip_vision_model", [768, 12, 3072, 32], QuickGelu, 1e-5, 1, false),
    ];
    for (name, sizes, activation, epsilon, prefix, final_norm) in all {
        let own = config(&format!(r#"{{"model_type": "{name}"}}"#));
        let found = [own.width, own.heads, own.mlp_dim, own.patch[0]];
        assert_eq!((found, own.layers, own.image), (sizes, 12, [224; 2]), "{name}");
        let rest = (own.activation, own.epsilon, own.prefix_tokens(), own.final_norm);
        assert_eq!(rest, (activation, epsilon, prefix, final_norm), "{name}");
        let mlp = (own.gated, own.biases.mlp, own.layer_scale);
        let scaled = ["beit", "data2vec-vision", "dinov2", "dinov2_with_registers", "dinov3_vit"];
        assert_eq!(mlp, (false, true, scaled.contains(&name)), "{name}");
    }
    // The other three are in the tests beside this one.
    assert_eq!(FAMILIES.len(), all.len() + ["siglip", "clip", "eva02"].len());
    // Old files do not name their image processor.
    for family in FAMILIES {
        let old = preprocess::config::parse("old.json", b"{}", Some(family.model_type));
        assert!(old.is_ok(), "{}: {old:?}", family.model_type);
    }
}

#[test]
fn what_a_config_of_eva02_leaves_out_is_as_published() {
    let eva02 = config(r#"{"model_type": "eva02"}"#);
    assert_eq!((eva02.width, eva02.mlp_dim, eva02.grid().len(), eva02.prefix_tokens()), (768, 2048, 256, 1));
    assert_eq!((eva02.activation, eva02.epsilon, eva02.final_norm), (Activation::Silu, 1e-6, true));
    assert_eq!((eva02.gated, eva02.attention_norm, eva02.mlp_norm), (true, false, false));
    assert_eq!(eva02.biases.qkv, [true, false, true]);
    assert_eq!(eva02.rotary, Some(Rotary::Counted { base: 1e4, reference: 16 }));
    let within = config(
        r#"{"model_type": "eva02", "use_mlp_norm": true, "use_mean_pooling": true, "qkv_bias": false}"#,
    );
    assert_eq!((within.attention_norm, within.mlp_norm, within.final_norm), (false, true, false));
    assert_eq!(within.biases.qkv, [false; 3]);
}

/// Writes a fixture's weights to a folder, each under all the names that `name` returns for it.
fn rename(from: &str, to: &Path, name: impl Fn(&str) -> Vec<String>) {
    let bytes = std::fs::read(fixtures().join(from).join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let views = file.iter().flat_map(|(old, view)| {
        name(old)
            .into_iter()
            .map(move |new| (new, TensorView::new(view.dtype(), view.shape().to_vec(), view.data()).unwrap()))
    });
    serialize_to_file(views.collect::<Vec<_>>(), None, &to.join("model.safetensors")).unwrap();
}

#[test]
fn what_stands_beside_an_encoder_is_left_out_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let open = |from: &str, config: &str, name: &dyn Fn(&str) -> Vec<String>| {
        std::fs::write(folder.path().join("config.json"), config).unwrap();
        rename(from, folder.path(), name);
        Backbone::open(folder.path(), &device).map(|_| ()).map_err(|error| error.to_string())
    };
    let text = |case: &str| std::fs::read_to_string(fixtures().join(case).join("config.json")).unwrap();
    let same = |name: &str| vec![name.to_owned()];
    // A vision encoder opens from a file that holds the text encoder too, and from one without the prefix.
    open("clip", &text("clip-vision").replace("\"gelu\"", "\"quick_gelu\""), &same).unwrap();
    let bare = |name: &str| name.strip_prefix("vision_model.").map(str::to_owned).into_iter().collect();
    open("clip", &text("clip"), &bare).unwrap();
    for case in ["clip", "siglip", "deit", "dinov3", "ijepa", "data2vec", "eva02", "eva02-norms"] {
        open(case, &text(case), &same).unwrap();
        // A copy of a weight under a name that the encoder does not know.
        let more = |name: &str| match name.ends_with("norm1.weight") || name.ends_with("before.weight") {
            true => vec![name.to_owned(), name.replace(".weight", ".gamma")],
            false => vec![name.to_owned()],
        };
        let error = open(case, &text(case), &more).unwrap_err();
        assert!(error.contains("2 unused") && error.contains(".gamma"), "{case}: {error}");
        let fewer = |name: &str| match name.contains("position_embedding") || name.ends_with("q_proj.weight")
        {
            true => Vec::new(),
            false => vec![name.to_owned()],
        };
        if case != "data2vec" {
            let error = open(case, &text(case), &fewer).unwrap_err();
            assert!(error.contains("missing"), "{case}: {error}");
        }
    }
    // SigLIP's pooling head is no part of CLIP.
    let head = |name: &str| match name == "logit_scale" {
        true => vec!["vision_model.head.probe".to_owned()],
        false => vec![name.to_owned()],
    };
    let error = open("clip", &text("clip"), &head).unwrap_err();
    assert!(error.contains("unused: vision_model.head.probe"), "{error}");
}

/// transformers 5.23 saves `ViTMSNForImageClassification` so.
#[test]
fn layers_without_the_prefix_of_all_else_are_those_of_the_encoder() {
    let folder = tempfile::tempdir().unwrap();
    let of_msn = fixtures().join("vit-msn");
    std::fs::copy(of_msn.join("config.json"), folder.path().join("config.json")).unwrap();
    let tokens = |folder: &Path| {
        let backbone = Backbone::open(folder, &Device::flex()).map_err(|error| error.to_string())?;
        Ok::<_, String>(flat(&backbone.forward(&[image(0, 16, 16)]).unwrap()[0]))
    };
    let is_bare = |name: &str| name.starts_with("encoder.layer.");
    let under = |name: &str| format!("vit.{name}");
    rename("vit-msn", folder.path(), |name| vec![if is_bare(name) { name.to_owned() } else { under(name) }]);
    assert_eq!(tokens(folder.path()).unwrap(), tokens(&of_msn).unwrap());
    // Other layers beside its own are not taken for them.
    let twice =
        |name: &str| is_bare(name).then(|| name.to_owned()).into_iter().chain([under(name)]).collect();
    rename("vit-msn", folder.path(), twice);
    let error = tokens(folder.path()).unwrap_err();
    assert!(error.contains("32 unused: encoder.layer."), "{error}");
}

#[test]
fn what_is_over_at_the_edge_of_a_trained_size_is_left_out_as_transformers_does() {
    let folder = fixtures().join("siglip-remainder");
    let expected = read(&folder.join("stages.safetensors"));
    let backbone = Backbone::open(&folder, &Device::flex()).unwrap();
    let own = Preprocessor::open(&folder).unwrap();
    assert_eq!((own.cut, own.output()), (Some([4, 4]), Some((16, 16))));
    let oblong = Size::Exact { height: 25, width: 31 };
    let oblong = Preprocessor { resize: own.resize.map(|(_, filter)| (oblong, filter)), ..own.clone() };
    assert_ne!(own.key(), Preprocessor { cut: None, ..own.clone() }.key());
    for (preprocessor, name) in [(own, "18x18"), (oblong, "25x31")] {
        let pixels = preprocessor.apply(&photo(64, 37)).unwrap();
        assert_eq!(preprocessor.output(), Some((pixels.height, pixels.width)));
        let tokens = backbone.forward(&[pixels]).unwrap().remove(0);
        assert!(difference(&tokens.patches, &expected[name].data) <= TOLERANCE, "{name}");
    }
}
