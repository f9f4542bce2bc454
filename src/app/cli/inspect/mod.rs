//! `ssmprobe inspect`: explains images by probes, as arrays, JSON and a table (docs/definitions.md, section 8).

mod report;

use self::report::Report;
use super::on_flags::OnFlags;
use crate::app::cli::prelude::*;
use crate::app::jobs::inspect::InspectFlags;
use crate::app::jobs::{Compute, Event};
use crate::model::backbone;

/// Explain how probes read images: plans, kernels, evidence and diagnostics as files.
#[derive(Args)]
#[command(after_long_help = format!("{LONG}\n\n{}", backbone::listed()))]
pub struct Inspect {
    #[command(flatten)]
    flags: InspectFlags,
    /// Folder to write to; created if missing, files of the same name are replaced.
    #[arg(long, value_name = "OUT")]
    out: PathBuf,
    #[command(flatten)]
    on: OnFlags,
    /// Print one JSON document per line, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

const LONG: &str = r#"Files, for every image and probe:
  OUT/<image>/<probe>.npz   float32 arrays, those that the head has: scores [N], plan [N, N] (or
                            orders [directions, N]), kernel [N] or [N, d] (with several directions
                            the first; all of them are kernels [directions, N] or [directions, N,
                            d]), token_weight [N], logits [C], evidence_position [N],
                            evidence_token [N], evidence_position_raster [N] (the same memory
                            without its router), evidence_proxy [N], evidence_proxy_raster [N];
                            with --attributions gradient [N], integrated [N], rollout [N]
  OUT/<image>/<probe>.json  prediction, class of the evidence, bias, diagnostics, order test; with
                            --attributions the sum of each or why it has none, and the
                            completeness error of integrated gradients; with --masks when every
                            region is read, what its tokens count and add, both AUC, and which is
                            read before which
  OUT/<image>/<probe>.gif   with --save-gif: one frame per token (beyond 256 tokens: every few),
                            85 mm wide
  OUT/<image>/<probe>.stability.json  with --stability, for probes that read in a single order
  OUT/<image>/<probe>.causal.npz  with --causal: fraction [F]; MODE_deletion_RANKING,
                            MODE_insertion_RANKING [F] (the class's logit; ..._margin and
                            ..._probability likewise); ranking_RANKING [N] (tokens, the most
                            important first); gradient, integrated, rollout [N] (the baselines
                            themselves). RANKING: evidence, weight, late, gradient, integrated,
                            rollout, random, random_low, random_high
  OUT/<image>/<probe>.causal.json  the same, and why anything is missing; `ssmprobe figures
                                   --causal` draws it
  OUT/summary.csv           one row for every image and probe (and class, if several are
                            requested)
<image> and <probe> are file names without extension. Where two are the same, the second is called
<name>-2 and so on, in the order given (folders: sorted); summary.csv says which is which. With
--reading the names of results say how the probe reads: <probe>-random-order-0.npz; with several
classes, they also say which: <probe>-for-cat.npz, <probe>-for-dog.npz; --stability is measured
with the first. An order file holds the token that is read at every step, from 0: a NumPy archive
with the array order [N], or CSV. --reading order=mine.npz reads every image in that order:
<probe>-order-mine.npz. The index of an image among those given, from 0, seeds what random-dynamic
draws for it. The same files, settings and device give the same bytes.

--json prints {"event": "result", ...} for every image and probe (what its .json file says, and
`files`), {"event": "failure", "image", "probe", "error"} for an image that was left out, or for
one probe of it, and last {"event": "end", "out", "images", "images_done", "results"}.

What cannot be read is left out with a warning and counted at the end. A probe in which a
--reading would change nothing (gap has no order) is left out with one warning for all images.
Exit codes: 0 at least one image was explained, 1 none was or the run failed, 2 wrong usage,
130 stopped by Ctrl-C: results so far are written, summary included."#;

impl Inspect {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        let report = Report::new(self.out, self.json);
        let ended = self.on.perform(Compute::Inspect(Box::new(self.flags)), &|event, _| match event {
            Event::Inspect { event, .. } => report.print_event(event),
            _ => Ok(()),
        })?;
        let code = report.finish()?;
        Ok(if ended { code } else { interrupt::code() })
    }
}
