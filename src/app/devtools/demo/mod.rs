//! Making the bundled demo.

mod backbones;
mod build;
mod heads;

pub use self::build::Build;
