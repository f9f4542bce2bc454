//! Long work handed to Slurm, or to processes here: cut into tasks, each a command line that anyone could type, which
//! wait for one another in stages, the last of which joins what they made.
//!
//! Everything about it lies in one folder, `tasks` in the folder of the run:
//!
//! | file | holds |
//! |---|---|
//! | `plan.json` | [`Plan`]: the stages, and what they were handed in as |
//! | `STAGE.sh` | what `sbatch` gets ([`script`]) |
//! | `state/STAGE-N` | the exit code of a task that came to an end ([`status`]) |
//! | `state/.cancel` | nothing: tasks were ended, and none was handed in since |
//! | `log/STAGE-N.txt` | what it printed |
//! | `1`, `2`, ... | what each part makes, until they are joined |
//!
//! Of several backbones each has a chain of stages of its own, which ends in a folder below; the parts lie in `tasks` there.

mod flags;
pub mod hand_in;
pub mod join;
pub mod local;
pub mod plan;
pub mod script;
pub mod slurm;
pub mod status;

pub use flags::{SlurmFlags, SubmitFlags, SubmitTarget};
pub use plan::{Plan, Stage, Task};
pub use slurm::SlurmError;
