//! `ssmprobe similar`: finds the images of an evaluation that a probe reads most like given ones.

use super::figures::source;
use crate::app::cli::prelude::*;
use crate::app::image_files::image_named;
use crate::app::report::FORMATS;
use crate::app::report::table::{Cell, Column, Row, Table};
use crate::app::value_parser::{one_of, whole_number};
use crate::model::explain::evaluation::Evaluation;
use crate::model::explain::evaluation::similarity::{ImageSpace, Similarity};
use crate::model::explain::evaluation::vectors::VectorKind;

/// Find the images of a dataset that a probe reads most like the given ones.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub struct Similar {
    /// Evaluation of the dataset by a probe: `<probe>.survey.json` from `ssmprobe eval --evaluation`.
    #[arg(long, value_name = "FILE")]
    evaluation: PathBuf,
    /// Images by their names in the evaluation, or by the end of a name that only one image has.
    #[arg(long, value_name = "NAME", required = true, num_args = 1..)]
    image: Vec<String>,
    #[command(flatten)]
    comparison: SimilarityFlags,
    /// Also compare with mirrored images (flipped left to right).
    #[arg(long)]
    flipped: bool,
    /// Number of images to list.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = whole_number(1_usize..))]
    count: usize,
    /// Print one JSON document per line, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

/// How images are compared.
#[derive(Args, Clone, Copy)]
pub struct SimilarityFlags {
    /// What images are compared by: routing (each token's position in the order), evidence (what it adds to the
    /// image's own class) or weight (how much it counts)
    #[arg(long, default_value = "routing", value_name = "NAME",
          value_parser = one_of(VectorKind::ALL, VectorKind::id))]
    pub vectors: VectorKind,
    /// Similarity measure: cosine, or spearman (rank correlation)
    #[arg(long, default_value = "cosine", value_name = "NAME",
          value_parser = one_of(Similarity::ALL, Similarity::id))]
    pub similarity: Similarity,
}

impl SimilarityFlags {
    /// The vectors of the evaluation in `file`, scaled for comparison; the error says why it has none of this kind, and
    /// which other kinds tell its images apart.
    pub fn space(self, evaluation: &Evaluation, file: &Path) -> anyhow::Result<ImageSpace> {
        let space = |kind| evaluation.space(kind, self.similarity);
        space(self.vectors).map_err(|why| {
            let differs = |kind: &VectorKind| space(*kind).is_ok_and(|space| !space.is_uniform());
            let others: Vec<&str> = VectorKind::ALL.into_iter().filter(differs).map(VectorKind::id).collect();
            let instead = match others.is_empty() {
                true => String::new(),
                false => format!("; pass --vectors {} instead", others.join(" or ")),
            };
            anyhow::anyhow!("{}: {}: {why}{instead}", file.display(), self.vectors.id())
        })
    }
}

const LONG: &str = r#"--json prints for every image {"image", "class", "prediction", "vectors", "similarity", "flipped",
"uniform", "nearest": [{"image", "class", "prediction", "similarity"}]}, the most similar first;
"uniform" is true where all images are equal, so that their order is only that of the dataset;
"nearest" is null for an image without these numbers.

`ssmprobe figures --evaluation FILE --figure image_map` draws all images on two axes.

Exit codes: 0 done, 1 failed, 2 wrong usage."#;

impl Similar {
    /// Prints the most similar images of each image; fails if the file cannot be read, or lacks the vectors or an image.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let evaluation = source::evaluation(&self.evaluation)?;
        let file = self.evaluation.display().to_string();
        let space = self.comparison.space(&evaluation, &self.evaluation)?;
        let found = self.image.iter().map(|name| image_named(&evaluation.set.images, name, &file));
        for image in found.collect::<Result<Vec<_>, _>>().map_err(Usage)? {
            if self.json {
                stdout::line(self.to_json(&evaluation, &space, image))?;
            } else {
                stdout::text(self.table(&evaluation, &space, image))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The images most like image number `image`, as JSON.
    fn to_json(&self, evaluation: &Evaluation, space: &ImageSpace, image: usize) -> serde_json::Value {
        let SimilarityFlags { vectors: kind, similarity } = self.comparison;
        let neighbour = |(at, similarity): (usize, f32)| {
            let (class, prediction) = classes(evaluation, at);
            let image = &evaluation.set.images[at];
            json!({"image": image, "class": class, "prediction": prediction, "similarity": similarity})
        };
        let nearest: Vec<serde_json::Value> =
            space.nearest(image, self.count, self.flipped).into_iter().map(neighbour).collect();
        let (class, prediction) = classes(evaluation, image);
        json!({
            "image": evaluation.set.images[image],
            "class": class,
            "prediction": prediction,
            "vectors": kind.id(),
            "similarity": similarity.id(),
            "flipped": self.flipped,
            "uniform": space.is_uniform(),
            "nearest": space.knows(image).then_some(nearest),
        })
    }

    /// The same as a Markdown table.
    fn table(&self, evaluation: &Evaluation, space: &ImageSpace, image: usize) -> String {
        let SimilarityFlags { vectors: kind, similarity } = self.comparison;
        let mut columns = ["Image", "Class", "Predicted"].map(Column::words).to_vec();
        columns.push(Column::numbers(similarity.name()));
        let row = |(at, value): (usize, f32)| {
            let (class, predicted) = classes(evaluation, at);
            let mut cells = [evaluation.set.images[at].as_str(), class, predicted].map(Cell::text).to_vec();
            cells.push(Cell::number(f64::from(value), 4));
            Row { ruled: false, cells }
        };
        let rows = space.nearest(image, self.count, self.flipped).into_iter().map(row).collect();
        let (name, (class, _)) = (&evaluation.set.images[image], classes(evaluation, image));
        let title =
            format!("Images like {name} ({class}) by {}, {}", kind.name().to_lowercase(), evaluation.probe);
        let unknown = (!space.knows(image)).then(|| "The image has no such numbers to compare".to_owned());
        let uniform = space.is_uniform().then(|| {
            let (kind, probe) = (kind.name().to_lowercase(), &evaluation.probe);
            format!("By {kind}, {probe} treats all images alike: they are in the order of the dataset")
        });
        let notes = unknown.into_iter().chain(uniform).collect();
        let table = Table { id: "similar".into(), title, columns, rows, notes };
        (FORMATS[0].render)(&table)
    }
}

/// The names of an image's class and of the predicted class.
fn classes(evaluation: &Evaluation, image: usize) -> (&str, &str) {
    let set = &evaluation.set;
    (&set.classes[set.class[image] as usize], evaluation.predicted_name(image))
}
