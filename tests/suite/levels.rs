//! Numeric loops are compiled for several levels of instructions: every one gives what the references say, not only the
//! widest that this machine has.

use std::process::Command;

use ssmprobe::model::ops::simd::Level;

use crate::{backbones, diagnostics, evidence, heads, pooling, routing, skip};

/// Names the level to a process of its own: all loops of a process take the same.
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
            "levels::the_level_that_is_taken_gives_what_the_references_say",
            "--nocapture",
        ]);
        let output = child.env(VARIABLE, format!("{level:?}")).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{level:?}: {said}{told}");
        assert!(said.contains(&format!("all at level {level:?}")) && said.contains("1 passed"), "{said}");
    }
}

#[test]
fn the_level_that_is_taken_gives_what_the_references_say() {
    let Some(name) = std::env::var_os(VARIABLE) else {
        // The other tests hold the widest to the references.
        return assert_eq!(Level::taken(), Level::widest());
    };
    let level = Level::ALL.into_iter().find(|level| *format!("{level:?}") == *name).expect("a level");
    assert_eq!((level.force(), Level::taken()), (level, level));
    heads::readings_give_the_reference_logits_in_float64();
    heads::tensors_give_the_reference_logits_and_gradients();
    pooling::every_pooling_and_its_gradients_are_those_of_elementary_operations();
    pooling::a_weight_for_every_channel_and_its_gradients_are_those_of_elementary_operations();
    routing::all_that_needs_no_gpu();
    evidence::evidence_logits_and_token_weights_equal_the_reference();
    diagnostics::every_measure_equals_the_reference();
    backbones::every_stage_of_every_family_equals_transformers();
    println!("all at level {:?}", Level::taken());
}
