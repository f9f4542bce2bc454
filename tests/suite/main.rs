//! The integration tests, one module per subject, in one binary so that the large dependencies are linked once.

#![cfg_attr(
    not(unix),
    allow(unused_imports, dead_code, reason = "tests of links, signals and permissions are left out")
)]

/// A closure for `find_map` and `filter_map`: the value, of what has the pattern.
macro_rules! pick {
    ($pattern:pat $(if $so:expr)? => $value:expr) => {
        |one| match one {
            $pattern $(if $so)? => Some($value),
            _ => None,
        }
    };
}

mod ablation;
mod annotations;
mod attribution;
mod augment;
mod backbones;
mod baselines;
mod bench;
mod calibration;
mod close;
mod closing;
mod crash;
mod damaged_tokens;
mod data;
mod demo;
mod devices;
mod diagnostics;
mod dialogs;
mod doctor;
mod end_to_end;
mod environment;
mod eval;
mod evaluation;
mod evidence;
mod families;
mod faults;
mod figures;
mod findings;
mod frozen;
mod gallery;
mod gpu;
mod gpus;
mod hand_orders;
mod heads;
mod hostile;
mod hostile_names;
mod house;
mod html;
mod hub;
mod images;
mod import;
mod inspect;
mod interaction;
mod interrupts;
mod kills;
mod layers;
mod live_window;
mod mutated;
mod npz;
mod numbers;
mod opening;
mod order_test;
mod parquet;
mod pictures;
mod pipe;
mod pooling;
mod preload;
mod pretrain;
mod probe_files;
mod probe_options;
mod protocol;
mod readers;
mod real;
mod regions;
mod remote;
mod removal;
mod removal_window;
mod report;
mod routing;
mod run;
mod security_limits;
mod simd_levels;
mod similarity;
mod skip;
mod state;
mod stats;
mod stored_evaluations;
mod submit;
mod token_provenance;
mod traces;
mod training;
mod training_tasks;
mod training_window;
mod training_worker;
mod undo;
mod viz;
mod weights;
mod window;
mod without_cls;
mod worker;
