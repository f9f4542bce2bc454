//! Cached tokens are reused only if everything that determines them is the same.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;

use burn::tensor::Device;
use serde_json::{Value, json};
use ssmprobe::app::jobs::extract::{ExtractOptions, Plan, TokenSettings};
use ssmprobe::model::backbone::arithmetic::Arithmetic;
use ssmprobe::model::backbone::order::MaeOrder;
use ssmprobe::model::backbone::token_spec::TokenSpec;
use ssmprobe::model::data::token_cache::Precision;

use super::Sandbox;
use crate::run::root;

/// A copy of the sandbox's backbone with some fields of its preprocessing changed.
fn copy(sandbox: &Sandbox, name: &str, changes: &Value) -> ExtractOptions {
    let to = sandbox.path(name);
    fs::create_dir_all(&to).expect("a folder");
    for file in ["config.json", "preprocessor_config.json", "model.safetensors"] {
        fs::copy(crate::run::backbone().join(file), to.join(file)).expect("a copy");
    }
    let path = to.join("preprocessor_config.json");
    let mut config: Value = crate::run::json(&path);
    let fields = config.as_object_mut().expect("an object");
    fields.extend(changes.as_object().expect("an object").clone());
    fs::write(&path, config.to_string()).expect("room");
    ExtractOptions { backbone: to, ..sandbox.wanted() }
}

#[test]
fn tokens_of_another_preprocessing_backbone_layer_or_dataset_are_not_reused() {
    let sandbox = Sandbox::new();
    let dataset = sandbox.dataset();
    let plan = |wanted: &ExtractOptions| Plan::new(wanted.clone(), &dataset).expect("a plan");
    // The same backbone elsewhere has the same tokens.
    assert!(plan(&copy(&sandbox, "same", &json!({}))).complete());

    let mut all: Vec<(String, ExtractOptions)> = Vec::new();
    for changes in [
        json!({"image_mean": [0.5, 0.5, 0.4]}),
        json!({"image_mean": [0.4, 0.5, 0.5]}),
        json!({"image_std": [0.5, 0.6, 0.5]}),
        json!({"do_normalize": false}),
        json!({"rescale_factor": 0.0078125}),
        json!({"do_rescale": false}),
        json!({"resample": 3}),
        json!({"resample": 1}),
        json!({"size": {"height": 40, "width": 40}, "do_center_crop": true, "crop_size": {"height": 32, "width": 32}}),
        json!({"size": {"shortest_edge": 32}, "do_center_crop": true, "crop_size": {"height": 32, "width": 32}}),
        json!({"size": {"shortest_edge": 36}, "do_center_crop": true, "crop_size": {"height": 32, "width": 32}}),
    ] {
        let name = format!("{}", all.len());
        all.push((changes.to_string(), copy(&sandbox, &name, &changes)));
    }
    let kept = |tokens: TokenSettings| ExtractOptions { tokens, ..sandbox.wanted() };
    let taken = |token_spec: TokenSpec| kept(TokenSettings { token_spec, ..sandbox.wanted().tokens });
    all.push(("layer".into(), taken(TokenSpec { layer: Some(1), ..TokenSpec::default() })));
    all.push(("size".into(), taken(TokenSpec { size: Some(64), ..TokenSpec::default() })));
    all.push((
        "arithmetic".into(),
        taken(TokenSpec { arithmetic: Arithmetic::Float16, ..TokenSpec::default() }),
    ));
    all.push((
        "precision".into(),
        kept(TokenSettings { precision: Precision::Float32, ..sandbox.wanted().tokens }),
    ));
    let weights = copy(&sandbox, "weights", &json!({}));
    let path = weights.backbone.join("model.safetensors");
    let mut bytes = fs::read(&path).expect("weights");
    *bytes.last_mut().expect("some") ^= 1;
    fs::write(&path, bytes).expect("room");
    all.push(("weights".into(), weights));
    // Only ViT-MAE gives its tokens in more than one order.
    for mae_order in [MaeOrder::Kept, MaeOrder::Shuffled(0), MaeOrder::Shuffled(1), MaeOrder::Redrawn] {
        let backbone = root().join("assets/demo/mae");
        all.push((
            format!("{mae_order:?}"),
            ExtractOptions { backbone, ..taken(TokenSpec { mae_order, ..TokenSpec::default() }) },
        ));
    }

    let mut known = HashMap::from([(plan(&sandbox.wanted()).folder(), "as it was".to_owned())]);
    for (change, wanted) in all {
        let plan = plan(&wanted);
        assert!(plan.done == 0 && !plan.complete(), "{change}: tokens of another making");
        if let Some(other) = known.insert(plan.folder(), change.clone()) {
            panic!("{change}: the same cache as {other}");
        }
    }

    // Another row of the same file.
    let of_row = |row: usize| {
        let mut dataset = dataset.clone();
        dataset.samples[0].source.row = Some(row);
        Plan::new(sandbox.wanted(), &dataset).expect("a plan").folder()
    };
    assert_ne!(of_row(0), of_row(1));

    // A changed image, and an additional one.
    let image = &dataset.samples[0].source.path;
    image::save_buffer(image, &[9; 48], 4, 4, image::ColorType::Rgb8).expect("an image");
    assert!(!sandbox.plan().complete(), "an image that changed");
    let other = Sandbox::new();
    let more = other.data().join("train/ant/more.png");
    image::save_buffer(more, &[9; 48], 4, 4, image::ColorType::Rgb8).expect("an image");
    let mut plan = other.plan();
    assert_eq!(plan.done, 0, "one image more");
    // They need room on the disk, to the byte.
    for (free, fits) in [(plan.bytes_missing, true), (plan.bytes_missing - 1, false)] {
        plan.free = Some(free);
        assert_eq!(plan.check().is_ok(), fits, "{free} bytes free");
    }
}

/// The number of heads is in `config.json` alone: the weights' names and shapes do not tell it.
#[test]
fn tokens_of_the_same_weights_with_another_configuration_are_refused() {
    let sandbox = Sandbox::new();
    let dataset = sandbox.dataset();
    let options = copy(&sandbox, "own", &json!({}));
    let tokens = TokenSettings { cache: Some(sandbox.path("kept")), ..options.tokens.clone() };
    let options = ExtractOptions { tokens, ..options };
    let plan = || Plan::new(options.clone(), &dataset);
    let whole = plan().expect("a plan").run(&dataset, &Device::flex(), &mut |_| ControlFlow::Continue(()));
    assert!(whole.is_ok() && plan().expect("a plan").complete());
    let path = options.backbone.join("config.json");
    let mut config: Value = crate::run::json(&path);
    config["num_attention_heads"] = 3.into();
    fs::write(&path, config.to_string()).expect("room");
    let refused = plan().expect_err("they are of 2 heads").to_string();
    // Caches keep these words: others would refuse all of them.
    let kept = "(2 heads, Gelu, epsilon 1e-12, positions of 4 x 4, a final norm; expected 3 heads,";
    assert!(refused.contains(kept), "{refused}");
}

/// With another mean the pixels, and so the tokens, differ: cached ones are not reused.
#[test]
fn a_training_after_the_mean_was_changed_takes_its_tokens_anew() {
    let sandbox = Sandbox::new();
    let mut plan = sandbox.train_plan(&["gap"]);
    (plan.settings.seeds, plan.settings.epochs) = (1, 1);
    let first = sandbox.trained(&plan, "first");
    plan.backbone = copy(&sandbox, "other", &json!({"image_mean": [0.1, 0.2, 0.3]})).backbone;
    let second = sandbox.trained(&plan, "second");
    assert_ne!(first.manifest.tokens.preprocessing, second.manifest.tokens.preprocessing);
    let [first, second] = [first, second].map(|run| run.losses(0).expect("losses").expect("some").heads);
    assert_ne!(first, second);
    assert_eq!(fs::read_dir(sandbox.path("tokens")).expect("a folder").count(), 2, "two caches");
}
