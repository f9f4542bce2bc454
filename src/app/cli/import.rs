//! `ssmprobe import`: converts a checkpoint into a folder that this program and transformers open, or a head into a probe.

use clap::builder::{PossibleValue, PossibleValuesParser};

use super::fetch;
use super::scenes::is_free;
use crate::app::cli::prelude::*;
use crate::app::value_parser::whole_number;
use crate::model::backbone::config::Config;
use crate::model::backbone::original::project::{self, PROJECTS, Scale};
use crate::model::backbone::original::{ImportOptions, Original};
use crate::model::backbone::weights::Weights;
use crate::model::backbone::{self, hub};
use crate::model::probe::original::{self, HEAD_PROJECTS, HeadProject};
use crate::model::probe::{BackboneMeta, Probe};

/// Convert a checkpoint into a backbone, or a published head into a probe.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub struct Import {
    /// The checkpoint (.pth, .pt, .bin, .safetensors), or a folder with weights.
    #[arg(value_name = "IN")]
    checkpoint: PathBuf,
    /// Project that the checkpoint comes from.
    #[arg(long = "as", value_name = "PROJECT", value_parser = projects())]
    project: String,
    /// Folder of the backbone, new or empty; for a head, a new probe file (.safetensors).
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Number of attention heads, if not the published one for the width.
    #[arg(long, value_name = "N", value_parser = whole_number(1_usize..))]
    heads: Option<usize>,
    /// Size in pixels of the images it was trained on, or HEIGHTxWIDTH; needed if its positions do not form a square.
    #[arg(long, value_name = "PIXELS", value_parser = size)]
    image_size: Option<[usize; 2]>,
    /// Normalisation of pixels, if not the project's own.
    #[arg(long, value_enum, value_name = "BY")]
    normalize: Option<Scale>,
    /// Key of the checkpoint that holds the model, such as student or model_ema.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Prefix of the tensor names of the encoder or head, such as `module.momentum_encoder.`
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// For a head: the backbone whose tokens it reads, a folder or an id on the Hugging Face Hub.
    #[arg(long, value_name = "DIR|HUB_ID")]
    backbone: Option<String>,
}

const LONG: &str = "\
OUT gets config.json, model.safetensors and preprocessor_config.json, all or none: `--backbone
OUT` reads them, and so does transformers (which has no EVA-02). The output lists what was left
out; a tensor that is missing, unexpected or of the wrong shape is an error that names it. Nothing
in a checkpoint is executed.

`ep` (Efficient Probing) and `dinov2-linear` are heads: OUT is a probe file. Batch normalisation
before the classifier is folded into it (W / s, b - W mean / s, with s the root of the variance +
1e-6); values of width d / d_out are the head's `width`. DINOv2's linear heads read the CLS token,
or CLS and the mean of the patches, of --backbone, after its last layer or its last 4.

Tensor shapes do not tell everything: the number of attention heads is the one published for the
width (--heads), and images are preprocessed as in the project's own evaluation (--normalize).
Models of timm differ: the config.json beside the weights, as on the Hub, says how; without it,
--normalize is required. It is also required for BEiT (half) and BEiT v2 (imagenet).

  ssmprobe import mae_pretrain_vit_base.pth --as mae mae-base
  ssmprobe import dinov2_vitb14_reg4_pretrain.pth --as dinov2 dinov2-base
  ssmprobe import vit.safetensors --as timm --normalize half vit
  ssmprobe import eva02_base_patch14_224.mim_in22k.safetensors --as timm --normalize clip eva02-base
  ssmprobe import dinov2_vitb14_reg4_linear4_head.pth --as dinov2-linear \\
    --backbone dinov2-base linear4.safetensors

Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// The largest edge of an image, in pixels.
const MAX_EDGE: usize = 16_384;

fn projects() -> PossibleValuesParser {
    let heads = HEAD_PROJECTS.iter().map(|project| (project.id, project.name));
    let all = PROJECTS.iter().map(|project| (project.id, project.name)).chain(heads);
    PossibleValuesParser::new(all.map(|(id, name)| PossibleValue::new(id).help(name)))
}

/// Parses one edge, or height and width with an x between, each from 1 to [`MAX_EDGE`] pixels; returns `[height, width]`.
fn size(text: &str) -> Result<[usize; 2], String> {
    let edge = |text: &str| text.parse().ok().filter(|edge| (1..=MAX_EDGE).contains(edge));
    let (height, width) = text.split_once('x').unwrap_or((text, text));
    let wrong = || format!("expected a size of 1 to {MAX_EDGE} pixels, or HEIGHTxWIDTH such as 224x196");
    edge(height).zip(edge(width)).map(<[usize; 2]>::from).ok_or_else(wrong)
}

impl Import {
    /// Converts the checkpoint into the folder of a backbone or the file of a probe.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let file = self.checkpoint.display();
        if let Ok(false) = self.checkpoint.try_exists() {
            let more = match self.checkpoint.to_str().is_some_and(hub::is_id) {
                true => format!(
                    ", or get a model of the Hub by `hf download {file} --local-dir DIR` and import DIR"
                ),
                false => String::new(),
            };
            refuse!("{file}: no such file or folder; check the path{more}");
        }
        self.check_flags()?;
        if let Some(project) = original::find(&self.project) {
            if let Ok(Probe { meta, .. }) = Probe::load(&self.checkpoint) {
                let why =
                    format!("it is already a probe, with the head `{}`, and needs no import", meta.head);
                refuse!("{file}: {why}; pass it as --probe");
            }
            return self.import_head(project);
        }
        if !is_free("", &self.out)? {
            let out = self.out.display();
            refuse!("{out}: the folder is not empty; choose a new one");
        }
        let project = project::find(&self.project).expect("one of the values that are allowed");
        let Self { heads, image_size: image, normalize: scale, key, prefix, .. } = self;
        let options = ImportOptions { heads, image, scale, key, prefix };
        let original = Original::open(&self.checkpoint, project, &options)?;
        original.write(&self.out)?;
        print_notes(&original.notes, &self.out)
    }

    /// Refuses flags of backbones for a head, and that of heads for a backbone.
    fn check_flags(&self) -> Result<(), Usage> {
        let reads_head = original::find(&self.project).is_some();
        let ignored = [
            ("heads", reads_head && self.heads.is_some()),
            ("image-size", reads_head && self.image_size.is_some()),
            ("normalize", reads_head && self.normalize.is_some()),
            ("backbone", !reads_head && self.backbone.is_some()),
        ];
        let Some((flag, _)) = ignored.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
        let (of, project) = (if reads_head { "a backbone" } else { "a head" }, &self.project);
        refuse!("--{flag}: is for {of}, which --as {project} does not read; leave it out")
    }

    /// Converts a head into the file of a probe.
    fn import_head(self, project: &'static HeadProject) -> anyhow::Result<ExitCode> {
        if self.out.exists() {
            refuse!("{}: already exists; choose a new file", self.out.display());
        }
        let backbone = match &self.backbone {
            None => BackboneMeta::default(),
            Some(source) => {
                let folder = fetch::backbone(source)?;
                let config = Config::open(&folder)?;
                BackboneMeta {
                    id: backbone::id(&folder),
                    model_type: config.family.model_type.to_owned(),
                    hidden_size: config.width,
                    fingerprint: Some(Weights::open(&folder)?.fingerprint()),
                    config: Some(config.key()),
                    ..BackboneMeta::default()
                }
            }
        };
        let (key, prefix) = (self.key.as_deref(), self.prefix.as_deref());
        let (probe, notes) = original::read(&self.checkpoint, project, backbone, key, prefix)?;
        probe.save(&self.out)?;
        print_notes(&notes, &self.out)
    }
}

/// Prints what was converted and what was left out, and the path written.
fn print_notes(notes: &[String], out: &Path) -> anyhow::Result<ExitCode> {
    for line in notes {
        stdout::line(line)?;
    }
    stdout::line(format!("wrote {}", out.display()))?;
    Ok(ExitCode::SUCCESS)
}
