//! Numeric loops are compiled for several SIMD levels: all of them must agree with the references, not only the widest
//! that this machine has.

use std::process::Command;

use ssmprobe::model::ops::simd::Level;

use crate::run::assert_says;
use crate::{backbones, diagnostics, evidence, heads, pooling, routing, skip};

/// Environment variable that sets the level of a child process: all loops of a process use the same.
const VARIABLE: &str = "SSMPROBE_LEVEL";

#[test]
fn every_level_gives_what_the_references_say() {
    for level in Level::ALL.into_iter().filter(|level| *level != Level::widest()) {
        if level > Level::widest() {
            skip::because(format!("this processor has no {level:?}"));
            continue;
        }
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args([
            "--exact",
            "simd_levels::the_level_that_is_taken_gives_what_the_references_say",
            "--nocapture",
        ]);
        let output = child.env(VARIABLE, format!("{level:?}")).output().expect("it runs");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{level:?}: {stdout}{stderr}");
        assert_says(stdout, &[&format!("all at level {level:?}"), "1 passed"]);
    }
}

#[test]
fn the_level_that_is_taken_gives_what_the_references_say() {
    let Some(name) = std::env::var_os(VARIABLE) else {
        // The other tests compare the widest level with the references.
        return assert_eq!(Level::current(), Level::widest());
    };
    let level = Level::ALL.into_iter().find(|level| *format!("{level:?}") == *name).expect("a level");
    assert_eq!((level.force(), Level::current()), (level, level));
    heads::readings_give_the_reference_logits_in_float64();
    heads::tensors_give_the_reference_logits_and_gradients();
    pooling::every_pooling_and_its_gradients_are_those_of_elementary_operations();
    pooling::a_weight_for_every_channel_and_its_gradients_are_those_of_elementary_operations();
    routing::all_that_needs_no_gpu();
    evidence::evidence_logits_and_token_weights_equal_the_reference();
    diagnostics::every_measure_equals_the_reference();
    backbones::every_stage_of_every_family_equals_transformers();
    println!("all at level {:?}", Level::current());
}
