//! The last task of a training: it joins the parts into one run.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context;

use super::plan::Plan;
use crate::app::format::shell_path;
use crate::model::train::run::Run;

/// Joins the parts of a training into the folder of its chain, and removes the parts; if they are joined already, removes
/// what is left of them. Returns notes for whoever reads the results.
///
/// # Errors
/// If a part is not finished, or damaged: nothing is removed then.
pub fn join(plan: &Plan, chain: Option<&str>) -> anyhow::Result<Vec<String>> {
    let folder = &plan.out(chain);
    let own = plan.parts().into_iter().filter(|(task, _)| plan.stages[task.stage].out.as_deref() == chain);
    let parts: Vec<PathBuf> = own.map(|(_, part)| part).collect();
    let mut notes = Vec::new();
    if !is_joined(plan, chain) {
        let remedy = || {
            format!(
                "`ssmprobe jobs {} --retry` redoes what is missing or damaged, and joins the parts",
                shell_path(&plan.folder)
            )
        };
        Run::join(folder, &parts).with_context(remedy)?;
        let devices: BTreeSet<String> =
            parts.iter().filter_map(|part| Some(Run::open(part).ok()?.manifest.device)).collect();
        if devices.len() > 1 {
            let devices = devices.into_iter().collect::<Vec<_>>().join(", ");
            notes.push(format!(
                "the parts were trained on different devices ({devices}): results match those of one device to about 1e-5"
            ));
        }
    }
    for part in parts.iter().filter(|part| part.exists()) {
        // On NFS, files stay as long as a process here has them open.
        if let Err(error) = std::fs::remove_dir_all(part) {
            notes.push(format!("{}: cannot be removed: {error}; it is no longer needed", part.display()));
        }
    }
    Ok(notes)
}

/// Whether the parts of a chain are joined, so that none is needed any more.
pub fn is_joined(plan: &Plan, chain: Option<&str>) -> bool {
    Run::open(&plan.out(chain)).is_ok_and(|run| run.check_finished().is_ok())
}
