//! A backbone without a CLS token (I-JEPA), through every verb that reads its tokens: heads of patch tokens
//! train and explain as usual, the CLS head is refused with a list of the others.

use ssmprobe::app::jobs::BackboneOptions;
use ssmprobe::app::jobs::extract::{ExtractOptions, Plan, TokenSettings};
use ssmprobe::app::jobs::info::{BackboneInfo, Compatibility, ProbeInfo};
use ssmprobe::model::backbone::Backbone;
use ssmprobe::model::data;
use ssmprobe::model::data::token_cache::TokenCache;
use ssmprobe::model::probe::Probe;

use crate::run::prelude::*;

/// A backbone folder laid out as on the Hub: the family's fixture and a preprocessor.
fn backbone(sandbox: &Sandbox) -> PathBuf {
    let folder = sandbox.path("jepa");
    let fixture = root().join("tests/fixtures/backbones/ijepa");
    std::fs::create_dir(&folder).expect("a folder");
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(fixture.join(name), folder.join(name)).expect("a copy");
    }
    let config = r#"{"image_processor_type": "ViTImageProcessorFast", "size": {"height": 16, "width": 16}}"#;
    std::fs::write(folder.join("preprocessor_config.json"), config).expect("a file");
    folder
}

fn train(sandbox: &Sandbox, backbone: &Path, heads: &str, out: &str, more: &[&str]) -> Command {
    let mut command = sandbox.verb("train", "cache");
    command.arg("--backbone").arg(backbone).arg("--data").arg(sandbox.data()).args(["--heads", heads]);
    command.args(["--epochs", "1", "--batch", "8", "--device", "cpu"]).arg("--out").arg(sandbox.path(out));
    command.args(more);
    command
}

#[test]
fn patch_tokens_are_trained_on_and_the_cls_head_is_refused() {
    let sandbox = Sandbox::new(24, 12);
    let folder = backbone(&sandbox);
    let refused = |more: &[&str]| {
        let said = "cls cannot be trained: jepa (ijepa) has no CLS token; the other heads can: gap,attention";
        assert_ends(&mut train(&sandbox, &folder, "gap,cls,attention", "refused", more), 2, &[said]);
        assert!(!sandbox.path("refused").exists() && !sandbox.path("cache").exists(), "nothing was written");
    };
    refused(&[]);
    refused(&["--recompute"]);
    let mut alone = train(&sandbox, &folder, "cls", "refused", &[]);
    assert_ends(&mut alone, 2, &["choose a head that reads patch tokens"]);

    // Recomputed for every batch or read from a cache, tokens are the same.
    done(&mut train(&sandbox, &folder, "gap,attention", "anew", &["--recompute"]));
    done(&mut train(&sandbox, &folder, "gap,attention", "kept", &[]));
    let probe = |run: &str| sandbox.path(run).join("probes/attention-s0-best.safetensors");
    let trained = |run: &str| Probe::load(probe(run)).expect("a probe");
    assert_eq!(trained("anew").arrays, trained("kept").arrays);

    // The planned size is the size on disk.
    let dataset = data::open(sandbox.data()).expect("scenes");
    let tokens = TokenSettings {
        cache: Some(sandbox.path("cache")),
        cache_limit: f64::INFINITY,
        ..TokenSettings::default()
    };
    let wanted = ExtractOptions::new(folder.clone(), tokens);
    let plan = Plan::new(wanted, &dataset).expect("a plan");
    assert_eq!((plan.done, plan.bytes), (36, 36 * 16 * 24 * 2));
    let cache = TokenCache::find(&sandbox.path("cache"), plan.source()).expect("readable").expect("there");
    assert!(cache.cls(&[0]).is_none() && cache.tokens(0).cls.is_none());

    let events = lines(&done(&mut sandbox.eval("kept", &["--anchors", "--json"])));
    let views: Vec<_> = events.iter().filter_map(|event| event["view"].as_str()).collect();
    assert!(!views.is_empty() && views.iter().all(|view| *view == "mean"), "{views:?}");

    let picture = &dataset.samples[0].source.path;
    let mut inspect = super::run::program();
    inspect.arg("inspect").arg("--backbone").arg(&folder).arg("--probe").arg(probe("kept"));
    inspect
        .arg("--image")
        .arg(picture)
        .args(["--save-tokens", "--device", "cpu", "--out"])
        .arg(sandbox.path("look"));
    done(&mut inspect);
    let npz = sandbox.path("look").join(picture.file_stem().expect("a name")).join("attention-s0-best.npz");
    let npz = zip::ZipArchive::new(std::fs::File::open(npz).expect("an archive")).expect("an archive");
    let names: Vec<String> = npz.file_names().map(|name| name.expect("a name").into_owned()).collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    assert!(has("tokens.npy") && !has("cls.npy"), "{names:?}");
}

#[test]
fn a_probe_that_reads_cls_does_not_fit_and_says_so() {
    let sandbox = Sandbox::new(12, 6);
    let folder = backbone(&sandbox);
    let with = super::run::backbone();
    done(&mut train(&sandbox, &with, "cls", "run", &[]));
    let path = sandbox.path("run/probes/cls-s0-best.safetensors");
    let probe = Probe::load(&path).expect("a probe");
    let facts = ProbeInfo::new(&probe, "cls".into(), String::new());
    let open = |folder: &Path| {
        let backbone = Backbone::open(folder, &burn::tensor::Device::flex()).expect("a backbone");
        let options = BackboneOptions::default();
        BackboneInfo::new(&backbone, "cpu".into(), String::new(), Some((16, 16)), options)
    };
    let jepa = BackboneInfo { width: facts.width, ..open(&folder) };
    assert!(
        matches!(facts.fits(&jepa), Compatibility::DoesNot(why) if why.contains("CLS reads the CLS token, and jepa has none"))
    );
    // It is refused before any image is read, and nothing is written.
    let mut fitting = probe.clone();
    fitting.meta.backbone.hidden_size = open(&folder).width;
    fitting.classifier.weight = vec![0.0; fitting.classes() * open(&folder).width];
    let fitting_file = sandbox.path("cls.safetensors");
    fitting.save(&fitting_file).expect("a file");
    let mut inspect = super::run::program();
    inspect.args(["inspect", "--device", "cpu", "--backbone"]).arg(&folder).arg("--probe").arg(&fitting_file);
    inspect.arg("--image").arg(sandbox.data()).arg("--out").arg(sandbox.path("look"));
    let (code, stdout, stderr) = run(&mut inspect);
    assert!(
        code == 2 && stderr.contains("reads the CLS token, which this backbone does not have"),
        "{stderr}"
    );
    assert!(stdout.is_empty() && !stderr.contains("left out") && !sandbox.path("look").exists(), "{stderr}");
    let error = probe.fits(facts.width, 16, false).expect_err("no CLS").to_string();
    assert!(error.contains("reads the CLS token, which this backbone does not have"), "{error}");
}
