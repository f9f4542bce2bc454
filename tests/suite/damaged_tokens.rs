//! Cached tokens that are not what was written: found before the first use, named, and extracted again, no
//! others with them. A training on them stays the same to the bit.

use std::ops::ControlFlow;
use std::time::SystemTime;

use ssmprobe::app::cli;
use ssmprobe::app::jobs::extract::{ExtractError, ExtractOptions, Plan, TokenSettings};
use ssmprobe::model::data::Dataset;
use ssmprobe::model::{data, device};

use super::faults;
use super::run::files;
use crate::run::prelude::*;

/// The only token cache of a sandbox.
fn cache(sandbox: &Sandbox) -> PathBuf {
    let all = entries(&sandbox.path("cache"));
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

fn shard(cache: &Path, index: usize) -> PathBuf {
    cache.join(format!("tokens-{index:06}.safetensors"))
}

/// Runs `ssmprobe extract`; its JSON document and its standard error.
fn extract(sandbox: &Sandbox, more: &[&str]) -> (Value, String) {
    let (stdout, stderr) = succeeds(sandbox.on_data("extract", "cache").arg("--json").args(more));
    (lines(&stdout)[0].clone(), stderr)
}

/// Inverts some bytes of the tokens, not of the header.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).expect("a shard");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 999].iter_mut().for_each(|byte| *byte = !*byte);
    fs::write(path, bytes).expect("written");
}

/// SHA-256 of a file by the system's `sha256sum`.
fn sha256sum(path: &Path) -> String {
    let output = std::process::Command::new("sha256sum").arg(path).output().expect("sha256sum runs");
    String::from_utf8(output.stdout).expect("text").split(' ').next().expect("a digest").to_owned()
}

fn record(cache: &Path, index: usize) -> Value {
    json(cache.join(format!("tokens-{index:06}.json")))
}

#[test]
fn a_record_says_where_a_shard_belongs_and_what_is_in_it() {
    let sandbox = Sandbox::new(100, 40);
    fs::write(sandbox.data().join("train/disc-dots/broken.png"), "no picture").expect("a file");
    extract(&sandbox, &[]);
    let cache = cache(&sandbox);
    let mut images = Vec::new();
    for index in 0..3 {
        let record = record(&cache, index);
        assert_eq!(record["cache"].as_str(), cache.file_name().and_then(|name| name.to_str()));
        assert_eq!(
            (&record["shard"], record["sha256"].as_str()),
            (&index.into(), Some(&*sha256sum(&shard(&cache, index))))
        );
        images.extend(record["images"].as_array().expect("images").clone());
    }
    // The images, sorted by their paths: train before val.
    let classes = ["train", "val"].iter().flat_map(|split| entries(&sandbox.data().join(split)));
    let paths = classes.flat_map(|class| entries(&class));
    let expected: Vec<Value> = paths.map(|path| sha256sum(&path).into()).collect();
    assert_eq!(images, expected);
}

#[test]
fn a_damaged_shard_is_named_and_it_alone_made_again() {
    let sandbox = Sandbox::new(110, 40);
    done(&mut sandbox.train("whole", 2, &[]));
    let cache = cache(&sandbox);
    let before = files(&cache);
    let kept = |index| shard(&cache, index).metadata().and_then(|about| about.modified()).expect("a time");

    damage(&shard(&cache, 1));
    let [first, third] = [kept(0), kept(2)];
    let (found, expected) = (sha256sum(&shard(&cache, 1)), record(&cache, 1)["sha256"].clone());
    let (document, stderr) = extract(&sandbox, &[]);
    let expected = expected.as_str().expect("a digest");
    for part in ["tokens-000001.safetensors", &found, expected, "are extracted again", "GB/s"] {
        assert!(stderr.contains(part), "{part} is not in {stderr}");
    }
    assert!(!stderr.contains("tokens-000000") && !stderr.contains("tokens-000002"), "{stderr}");
    assert_eq!(document["damaged"].as_array().map(Vec::len), Some(1));
    assert_eq!((kept(0), kept(2)), (first, third), "only one shard is written");
    assert_eq!(document["spent"]["images"], 64, "{document}");
    assert!(files(&cache) == before, "the cache is what it was");

    // A training finds the damage itself and ends with the same bits.
    damage(&shard(&cache, 0));
    assert_ends(&mut sandbox.train("again", 2, &[]), 0, &["tokens-000000.safetensors"]);
    let [whole, again] = ["whole", "again"].map(|run| files(&sandbox.path(run).join("probes")));
    assert!(whole == again);
    let (document, stderr) = extract(&sandbox, &[]);
    assert!(
        document["damaged"].as_array().is_some_and(Vec::is_empty) && !stderr.contains("warning"),
        "{stderr}"
    );
}

/// In one process, as the window is.
#[test]
fn a_shard_that_changed_since_it_was_read_is_read_again() {
    faults::apart("damaged_tokens::a_shard_that_changed_since_it_was_read_is_read_again", || {
        let sandbox = Sandbox::new(70, 24);
        let extract = || {
            let command = sandbox.on_data("extract", "cache");
            cli::run(std::iter::once(command.get_program()).chain(command.get_args())).expect("tokens");
        };
        extract();
        let cache = cache(&sandbox);
        let before = files(&cache);
        // A shard that was just written is verified anyway, so date them an hour ago.
        let past = SystemTime::now() - Duration::from_hours(1);
        for index in 0..2 {
            let file = fs::File::options().write(true).open(shard(&cache, index)).expect("a shard");
            file.set_modified(past).expect("a time");
        }
        extract();
        damage(&shard(&cache, 0));
        assert!(files(&cache) != before);
        extract();
        assert!(files(&cache) == before);
    });
}

#[test]
fn shards_in_each_others_place_are_found() {
    let sandbox = Sandbox::new(110, 82);
    extract(&sandbox, &[]);
    let cache = cache(&sandbox);
    let before = files(&cache);
    let [first, second] = [shard(&cache, 0), shard(&cache, 1)];
    fs::rename(&first, cache.join("aside")).expect("moved");
    fs::rename(&second, &first).expect("moved");
    fs::rename(cache.join("aside"), &second).expect("moved");
    let (document, stderr) = extract(&sandbox, &[]);
    assert_eq!(document["damaged"].as_array().map(Vec::len), Some(2), "{stderr}");
    assert!(stderr.contains("that of shard 1") && stderr.contains("that of shard 0"), "{stderr}");
    assert!(files(&cache) == before);

    // A shard in another's place with its record, which says where it belongs.
    for ending in ["safetensors", "json"] {
        let name = |index| cache.join(format!("tokens-00000{index}.{ending}"));
        fs::copy(name(2), name(0)).expect("copied");
    }
    let (document, stderr) = extract(&sandbox, &[]);
    assert!(stderr.contains("its record is for shard 2"), "{stderr}");
    assert_eq!(document["damaged"].as_array().map(Vec::len), Some(1), "{stderr}");
    assert!(files(&cache) == before);
}

/// An earlier version wrote no records, and a manifest without the field.
#[test]
fn a_cache_of_an_earlier_version_is_taken_as_it_is_and_gets_its_digests() {
    let sandbox = Sandbox::new(60, 24);
    extract(&sandbox, &[]);
    let cache = cache(&sandbox);
    let before = files(&cache);
    for index in 0..2 {
        fs::remove_file(cache.join(format!("tokens-00000{index}.json"))).expect("removed");
    }
    let manifest = fs::read_to_string(cache.join("manifest.json")).expect("a manifest");
    let old = manifest.replace(",\n  \"records\": true", "");
    assert_ne!(old, manifest);
    fs::write(cache.join("manifest.json"), old).expect("written");

    let (document, stderr) = extract(&sandbox, &["--verify"]);
    assert!(stderr.contains("2 digests are recorded now") && document["spent"].is_null(), "{stderr}");
    assert!(stderr.contains("84 images cannot be checked for changes"), "{stderr}");
    for (name, bytes) in
        before.iter().filter(|(name, _)| !name.starts_with("tokens-00000") || name.ends_with("safetensors"))
    {
        assert!(files(&cache)[name] == *bytes, "{name} is another");
    }
    assert_eq!(record(&cache, 1)["sha256"].as_str(), Some(&*sha256sum(&shard(&cache, 1))));
    damage(&shard(&cache, 1));
    let (document, stderr) = extract(&sandbox, &[]);
    assert_eq!(document["damaged"].as_array().map(Vec::len), Some(1), "{stderr}");
    assert!(files(&cache)["tokens-000001.safetensors"] == before["tokens-000001.safetensors"]);
    // A cache with digests needs all of them.
    fs::remove_file(cache.join("tokens-000000.json")).expect("removed");
    let (_, stderr) = extract(&sandbox, &[]);
    assert!(stderr.contains("tokens-000000.safetensors: it has no record"), "{stderr}");
}

#[test]
fn an_extraction_that_goes_on_names_the_image_it_cannot_read() {
    let sandbox = Sandbox::new(100, 40);
    let broken = sandbox.data().join("val/disc-dots/broken.png");
    fs::write(&broken, "no picture").expect("a file");
    let (_, stderr) = extract(&sandbox, &[]);
    assert!(stderr.contains("val/disc-dots/broken.png"), "{stderr}");
    let cache = cache(&sandbox);
    let holder = (0..3).find(|index| {
        let digest = Value::from(sha256sum(&broken));
        record(&cache, *index)["images"].as_array().is_some_and(|images| images.contains(&digest))
    });
    let holder = holder.expect("a shard");
    assert!(holder > 0, "what goes on would begin with the first image");
    fs::remove_file(shard(&cache, holder)).expect("removed");
    let stdout = done(&mut sandbox.train("run", 1, &["--seeds", "1", "--json"]));
    let event = lines(&stdout).into_iter().find(|line| line["event"] == "unreadable").expect("it is told");
    assert!(
        event["image"].as_str().is_some_and(|name| name.ends_with("val/disc-dots/broken.png")),
        "{event}"
    );
}

/// Overwrites a file and keeps its modification time.
fn rewrite(path: &Path, bytes: &[u8]) {
    let time = path.metadata().and_then(|about| about.modified()).expect("a time");
    fs::write(path, bytes).expect("written");
    fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("a time");
}

#[test]
fn an_image_rewritten_with_the_same_size_and_time_is_named() {
    let sandbox = Sandbox::new(70, 24);
    done(&mut sandbox.train("run", 1, &[]));
    let cache = cache(&sandbox);
    let before = files(&cache);
    let images = entries(&sandbox.data().join("train/disc-dots"));
    let (changed, original) = (&images[0], fs::read(&images[0]).expect("an image"));
    // Of the same length, but no longer a valid PNG, which has checksums.
    let mut other = original.clone();
    let middle = other.len() / 2;
    other[middle] ^= 1;
    rewrite(changed, &other);
    let (document, stderr) = extract(&sandbox, &[]);
    assert!(!stderr.contains("has changed since"), "only --verify reads images: {stderr}");
    assert!(document["changed"].as_array().is_some_and(Vec::is_empty) && files(&cache) == before);

    // A run that was trained on it is not resumed.
    let name = changed.file_name().and_then(|name| name.to_str()).expect("a name");
    assert_ends(&mut sandbox.train("run", 1, &["--resume", "--verify"]), 1, &[name, "restore it"]);

    let (document, stderr) = extract(&sandbox, &["--verify"]);
    assert_says(stderr, &[name, "has changed since its tokens were extracted"]);
    assert_eq!(document["changed"].as_array().map(Vec::len), Some(1));
    assert!(files(&cache) != before);
    assert!(
        files(&cache)["tokens-000001.json"] == before["tokens-000001.json"],
        "its shard alone is made again"
    );
    rewrite(changed, &original);
    extract(&sandbox, &["--verify"]);
    assert!(files(&cache) == before);
}

#[test]
fn results_on_images_that_have_changed_are_not_added_to() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sandbox.train("run", 1, &["--seeds", "1"]));
    done(&mut sandbox.eval("run", &["--ablations"]));
    let kept = || fs::read(sandbox.path("run/evaluation.json")).expect("results");
    let before = kept();
    let image = &entries(&entries(&sandbox.data().join("val"))[0])[0];
    let bytes = fs::read(image).expect("an image");
    fs::write(image, [&bytes[..], &[0]].concat()).expect("written");
    let words = ["on images that have changed since", "move its evaluation.json away"];
    assert_ends(&mut sandbox.eval("run", &["--keep-last", "1"]), 1, &words);
    assert!(kept() == before);
    // Touched alone, they are what they were.
    fs::write(image, bytes).expect("written");
    done(&mut sandbox.eval("run", &["--keep-last", "1"]));
    let kept = String::from_utf8(kept()).expect("text");
    assert!(kept.contains("\"scrambled\"") && kept.contains("\"last\""), "{kept}");
}

#[test]
fn a_touched_image_does_not_end_a_run_whose_images_are_what_they_were() {
    let sandbox = Sandbox::new(36, 12);
    done(&mut sandbox.train("run", 2, &["--seeds", "1"]));
    let probes = files(&sandbox.path("run/probes"));
    let warning = "warning: image files differ in size or time from when ";
    let (_, stderr) = succeeds(&mut sandbox.eval("run", &[]));
    assert!(!stderr.contains(warning), "{stderr}");
    let image = &entries(&sandbox.data().join("train/disc-dots"))[0];
    let bytes = fs::read(image).expect("an image");
    fs::write(image, &bytes).expect("written");

    let resume = |more: &[&str]| sandbox.resume("run", &[&["--device", "cpu"], more].concat());
    let (code, _, stderr) = run(&mut resume(&[]));
    assert!(code == 2 && stderr.contains("tokens.dataset"), "{code}: {stderr}");
    assert!(stderr.contains("--resume --verify") && !stderr.contains("`--resume --out` alone"), "{stderr}");
    // Contents decide; a further seed shows that the run really resumes.
    done(&mut resume(&["--verify", "--seeds", "2"]));
    let now = files(&sandbox.path("run/probes"));
    assert!(now.len() == 2 * probes.len() && probes.iter().all(|(name, bytes)| now[name] == *bytes));

    fs::write(image, [&bytes[..], &[0]].concat()).expect("written");
    let more = ["--verify", "--seeds", "3"];
    assert_ends(&mut resume(&more), 2, &["has changed since", "tokens.dataset"]);
    fs::write(image, &bytes).expect("written");

    // Without a record of the images' digests, they cannot be said to be the same.
    let cache = cache(&sandbox);
    fs::remove_file(cache.join("tokens-000000.json")).expect("removed");
    let manifest = fs::read_to_string(cache.join("manifest.json")).expect("a manifest");
    fs::write(cache.join("manifest.json"), manifest.replace(",\n  \"records\": true", "")).expect("written");
    assert_ends(&mut resume(&more), 2, &["tokens.dataset"]);
    assert_ends(&mut sandbox.eval("run", &[]), 0, &[warning]);
}

/// A plan to extract the tokens of all images of a sandbox.
fn planned(sandbox: &Sandbox, dataset: &Dataset, cache: &str, verify: bool) -> Plan {
    let tokens = TokenSettings { cache: Some(sandbox.path(cache)), verify, ..TokenSettings::default() };
    Plan::new(ExtractOptions::new(backbone(), tokens), dataset).expect("a plan")
}

fn carry_out(plan: &Plan, dataset: &Dataset) -> Result<(), ExtractError> {
    let device = device::choose("cpu").expect("a processor").device;
    plan.run(dataset, &device, &mut |_| ControlFlow::Continue(())).map(drop)
}

#[test]
fn tokens_of_images_whose_disk_is_gone_are_kept() {
    let sandbox = Sandbox::new(70, 24);
    let dataset = data::open(sandbox.data()).expect("a dataset");
    // Made before, as long as the files say when they were modified.
    let [plain, verifying, other] = [("cache", false), ("cache", true), ("other", false)]
        .map(|(cache, verify)| planned(&sandbox, &dataset, cache, verify));
    let run = |plan: &Plan| carry_out(plan, &dataset);
    run(&plain).expect("tokens");
    let before = files(&cache(&sandbox));
    fs::rename(sandbox.data(), sandbox.path("gone")).expect("renamed");
    let refused = run(&verifying).expect_err("no image can be compared").to_string();
    assert!(refused.contains("could be read before but no longer can"), "{refused}");
    assert!(files(&cache(&sandbox)) == before, "tokens are gone, too");
    let refused = run(&other).expect_err("no image is there").to_string();
    assert!(refused.contains("images in a row cannot be read"), "{refused}");
    fs::rename(sandbox.path("gone"), sandbox.data()).expect("renamed");
    run(&other).expect("nothing was left out");
    assert!(files(&entries(&sandbox.path("other"))[0]) == before);
    run(&verifying).expect("all are as they were");
    assert!(files(&cache(&sandbox)) == before);
}

#[cfg(unix)]
#[test]
fn an_image_that_its_disk_refuses_once_is_compared_all_the_same() {
    let sandbox = Sandbox::new(3, 1);
    let dataset = data::open(sandbox.data()).expect("a dataset");
    let [plain, verifying] = [false, true].map(|verify| planned(&sandbox, &dataset, "cache", verify));
    carry_out(&plain, &dataset).expect("tokens");
    let (image, aside) = (&*dataset.samples[0].source.path, sandbox.path("aside.png"));
    fs::rename(image, &aside).expect("renamed");
    std::os::unix::fs::symlink(image, image).expect("a link that leads nowhere");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            fs::rename(&aside, image).expect("renamed");
        });
        carry_out(&verifying, &dataset).expect("it is there a moment later");
    });
}

#[test]
fn a_dataset_of_which_no_image_can_be_read_has_no_tokens() {
    let sandbox = Sandbox::new(2, 1);
    let dataset = data::open(sandbox.data()).expect("a dataset");
    for sample in &dataset.samples {
        fs::write(&*sample.source.path, "no picture").expect("a file");
    }
    let refused = carry_out(&planned(&sandbox, &dataset, "cache", false), &dataset).expect_err("no image");
    assert_says(refused, &["0 of 3 images can be read; the first: "]);
}

/// The first shard has 64 images, the last of which are the first that cannot be read.
#[cfg(unix)]
#[test]
fn images_at_the_beginning_of_an_outage_are_not_left_out() {
    let sandbox = Sandbox::new(70, 24);
    let dataset = data::open(sandbox.data()).expect("a dataset");
    let [whole, other] = ["cache", "other"].map(|cache| planned(&sandbox, &dataset, cache, false));
    carry_out(&whole, &dataset).expect("tokens");
    let aside = |file: &Path| sandbox.path("aside").join(file.file_name().expect("a name"));
    fs::create_dir(sandbox.path("aside")).expect("a folder");
    let lost: Vec<&Path> = dataset.samples[50..].iter().map(|sample| &*sample.source.path).collect();
    for file in &lost {
        fs::rename(file, aside(file)).expect("renamed");
        std::os::unix::fs::symlink(file, file).expect("a link that leads nowhere");
    }
    let refused = carry_out(&other, &dataset).expect_err("most cannot be read").to_string();
    assert!(refused.contains("16 images in a row cannot be read"), "{refused}");
    for file in &lost {
        fs::rename(aside(file), file).expect("renamed");
    }
    carry_out(&other, &dataset).expect("all can be read again");
    assert!(files(&entries(&sandbox.path("other"))[0]) == files(&cache(&sandbox)), "some were left out");
}
