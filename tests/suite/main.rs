//! The tests, in one program so that the large dependencies are linked once. One module a subject.

mod ablation;
mod anchors;
mod backbones;
mod data;
mod demo;
mod devices;
mod diagnostics;
mod eval;
mod evidence;
mod figures;
mod heads;
mod house;
mod hub;
mod images;
mod inspect;
mod probe_files;
mod report;
mod routing;
mod run;
mod state;
mod traces;
mod training;
mod viz;
mod weights;
mod window;
mod worker;
