//! Long work submitted to Slurm, or to processes on this machine: cut into tasks, each a command line that anyone could
//! type, in stages that depend on one another; the last stage joins the results.
//!
//! Everything about it lies in one folder, `tasks` in the folder of the run:
//!
//! | file | holds |
//! |---|---|
//! | `plan.json` | [`Plan`]: the stages, and the job ids they were submitted as |
//! | `STAGE.sh` | the batch script of a stage ([`script`]) |
//! | `state/STAGE-N` | the exit code of a task that has ended ([`status`]) |
//! | `state/.submit` | nothing: it is locked by the process that submits tasks |
//! | `state/.cancel` | nothing: it marks that the tasks were cancelled, and none was submitted since |
//! | `log/STAGE-N.txt` | the output of a task |
//! | `1`, `2`, ... | the results of each part, until they are joined |
//!
//! With several backbones each has its own chain of stages, whose result is a folder below; its parts lie in `tasks` there.

mod flags;
pub mod join;
pub mod local;
pub mod plan;
pub mod script;
pub mod slurm;
pub mod status;
pub mod submission;

pub use flags::{SlurmFlags, SubmitFlags, SubmitTarget};
pub use plan::{Plan, Stage, Task};
pub use slurm::SlurmError;
