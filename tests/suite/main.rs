//! The tests, in one program so that the large dependencies are linked once. One module a subject.

mod backbones;
mod devices;
mod diagnostics;
mod evidence;
mod figures;
mod house;
mod hub;
mod data;
mod images;
mod routing;
mod traces;
mod viz;
mod weights;
