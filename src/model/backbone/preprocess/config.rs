//! `preprocessor_config.json` as transformers understands it: each processor class has defaults for
//! fields that the file leaves out. Fields that no listed processor reads are ignored.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{Filter, PreprocessError, Preprocessor, Size};
use crate::model::backbone::config::Config;
use crate::model::io::{atomic_file, if_there};

/// Largest edge in a configuration, in pixels.
const MAX_EDGE: u64 = 1 << 16;
/// Largest configuration file read, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// A processor class, and its defaults for fields that the file leaves out.
struct Defaults {
    /// The class, without the suffix that names its implementation.
    class: &'static str,
    /// The `model_type`s of `config.json` that use it.
    models: &'static [&'static str],
    filter: Filter,
    mean: [f64; 3],
    std: [f64; 3],
    size: Size,
    /// Whether a plain number as `size` means both edges, not the shorter one.
    square: bool,
    /// Whether it crops by default; `crop` is the default size as (height, width).
    crops: bool,
    crop: Option<(usize, usize)>,
}

pub(in crate::model::backbone) const HALF: [f64; 3] = [0.5; 3];
pub(in crate::model::backbone) const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
pub(in crate::model::backbone) const IMAGENET_STD: [f64; 3] = [0.229, 0.224, 0.225];
pub(in crate::model::backbone) const CLIP_MEAN: [f64; 3] = [0.48145466, 0.4578275, 0.40821073];
pub(in crate::model::backbone) const CLIP_STD: [f64; 3] = [0.26862954, 0.26130258, 0.27577711];

const VIT: Defaults = Defaults {
    class: "ViT",
    models: &["vit", "vit_mae", "vit_msn", "ijepa"],
    filter: Filter::Bilinear,
    mean: HALF,
    std: HALF,
    size: Size::Exact { height: 224, width: 224 },
    square: true,
    crops: false,
    crop: None,
};

/// The supported processors. DINOv3's resizes without rounding to bytes; here it rounds like the others,
/// a difference of at most one grey level.
const PROCESSORS: &[Defaults] = &[
    VIT,
    Defaults {
        class: "Beit",
        models: &["beit", "data2vec-vision"],
        filter: Filter::Bicubic,
        crop: Some((224, 224)),
        ..VIT
    },
    Defaults { class: "Bit", models: &["dinov2", "dinov2_with_registers", "eva02"], ..CLIP },
    CLIP,
    Defaults {
        class: "Siglip",
        models: &["siglip", "siglip_vision_model"],
        filter: Filter::Bicubic,
        square: false,
        ..VIT
    },
    Defaults {
        class: "DeiT",
        models: &["deit"],
        filter: Filter::Bicubic,
        size: Size::Exact { height: 256, width: 256 },
        crops: true,
        crop: Some((224, 224)),
        ..VIT
    },
    Defaults { class: "DINOv3ViT", models: &["dinov3_vit"], mean: IMAGENET_MEAN, std: IMAGENET_STD, ..VIT },
];

const CLIP: Defaults = Defaults {
    class: "CLIP",
    models: &["clip", "clip_vision_model"],
    filter: Filter::Bicubic,
    mean: CLIP_MEAN,
    std: CLIP_STD,
    size: Size::Shortest(224),
    square: false,
    crops: true,
    crop: Some((224, 224)),
};

impl Preprocessor {
    /// Reads `preprocessor_config.json` of a backbone's folder. For an old file that does not name
    /// its processor, it is derived from the `model_type` of the `config.json` beside it.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, PreprocessError> {
        let folder = folder.as_ref();
        let (path, text) = read(folder)?;
        // A missing or broken config.json is reported when the backbone is opened.
        let config = atomic_file::read(&folder.join("config.json"), MAX_FILE_BYTES).unwrap_or_default();
        let config: Value = serde_json::from_slice(&config).unwrap_or_default();
        let backbone = config.as_object().and_then(|map| Config::from_object(folder, map).ok());
        let cut = backbone.filter(|of| (0..2).any(|axis| !of.image[axis].is_multiple_of(of.patch[axis])));
        // The model type matters for old files only.
        let model = config.get("model_type").and_then(Value::as_str);
        Ok(Self { cut: cut.map(|of| of.patch), ..parse(&path.display().to_string(), &text, model)? })
    }
}

/// The path and contents of the configuration: the `image_processor` of `processor_config.json` if there
/// is one, as processors of text and images are stored since transformers 5, or `preprocessor_config.json`.
fn read(folder: &Path) -> Result<(PathBuf, Vec<u8>), PreprocessError> {
    let get = |name: &str| {
        let path = folder.join(name);
        match if_there(atomic_file::read(&path, MAX_FILE_BYTES)) {
            Ok(text) => Ok(text.map(|text| (path, text))),
            Err(source) => Err(PreprocessError::Read { path, source }),
        }
    };
    if let Some((path, text)) = get("processor_config.json")? {
        let both: Value = serde_json::from_slice(&text).map_err(|error| PreprocessError::Json {
            file: path.display().to_string(),
            why: error.to_string(),
        })?;
        if let Some(own) = both.get("image_processor").filter(|own| !own.is_null()) {
            return Ok((path, own.to_string().into_bytes()));
        }
    }
    get("preprocessor_config.json")?.ok_or_else(|| PreprocessError::Missing { folder: folder.into() })
}

/// Parses a configuration; `file` is its name in errors, `model` the `model_type` of the backbone.
pub fn parse(file: &str, text: &[u8], model: Option<&str>) -> Result<Preprocessor, PreprocessError> {
    let json = |why: String| PreprocessError::Json { file: file.into(), why };
    let map = match serde_json::from_slice(text).map_err(|error| json(error.to_string()))? {
        Value::Object(map) => map,
        other => return Err(json(format!("it contains {}", shorten(&other)))),
    };
    let fields = Fields { file, map };
    let defaults = fields.processor(model)?;
    if fields.flag("do_pad", false)? {
        return Err(fields.wrong("do_pad", "false: no backbone here reads padded images"));
    }
    let resize = if fields.flag("do_resize", true)? {
        let size = fields.size("size", defaults.square)?.unwrap_or(defaults.size);
        Some((size, fields.filter(defaults.filter)?))
    } else {
        None
    };
    let crop = if fields.flag("do_center_crop", defaults.crops)? {
        let crop = match fields.size("crop_size", true)? {
            Some(Size::Exact { height, width }) => Some((height, width)),
            Some(_) => None,
            None => defaults.crop,
        };
        Some(crop.ok_or_else(|| fields.wrong("crop_size", "a number, or `height` and `width`"))?)
    } else {
        None
    };
    let rescale = if fields.flag("do_rescale", true)? {
        let factor = match fields.get("rescale_factor") {
            None => 1.0 / 255.0,
            Some(value) => value.as_f64().unwrap_or(f64::NAN),
        };
        // Smaller or larger factors would underflow or overflow f32.
        if !(1e-30..=1e30).contains(&factor.abs()) {
            return Err(fields.wrong("rescale_factor", "a number other than 0, such as 0.00392156862745098"));
        }
        Some(factor)
    } else {
        None
    };
    let normalise = if fields.flag("do_normalize", true)? {
        let mean = fields.triple("image_mean", defaults.mean, |_| true)?;
        Some((mean, fields.triple("image_std", defaults.std, |x| x.abs() >= 1e-6)?))
    } else {
        None
    };
    Ok(Preprocessor { resize, crop, cut: None, rescale, normalise })
}

/// The fields of one file.
struct Fields<'a> {
    file: &'a str,
    map: Map<String, Value>,
}

impl Fields<'_> {
    fn get(&self, field: &str) -> Option<&Value> {
        self.map.get(field)
    }

    fn wrong(&self, field: &'static str, expected: impl Into<String>) -> PreprocessError {
        let found = self.get(field).map_or("missing".into(), shorten);
        PreprocessError::Field { file: self.file.into(), field, found, expected: expected.into() }
    }

    fn processor(&self, model: Option<&str>) -> Result<&'static Defaults, PreprocessError> {
        let known = || PROCESSORS.iter().map(|d| format!("{}ImageProcessor", d.class)).collect::<Vec<_>>();
        for field in ["image_processor_type", "feature_extractor_type"] {
            let Some(value) = self.get(field).filter(|value| !value.is_null()) else { continue };
            let class = value.as_str().unwrap_or_default();
            let class = class.strip_suffix("Fast").or(class.strip_suffix("Pil")).unwrap_or(class);
            let class = class.strip_suffix("ImageProcessor").or(class.strip_suffix("FeatureExtractor"));
            return PROCESSORS
                .iter()
                .find(|d| Some(d.class) == class)
                .ok_or_else(|| self.wrong(field, format!("one of {}", known().join(", "))));
        }
        PROCESSORS.iter().find(|d| model.is_some_and(|model| d.models.contains(&model))).ok_or_else(|| {
            let expected =
                format!("one of {} (config.json names no model that implies one)", known().join(", "));
            self.wrong("image_processor_type", expected)
        })
    }

    /// A boolean; `null` is false even if the default is true.
    fn flag(&self, field: &'static str, default: bool) -> Result<bool, PreprocessError> {
        match self.get(field) {
            None => Ok(default),
            Some(Value::Null) => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(field, "true or false")),
        }
    }

    fn filter(&self, default: Filter) -> Result<Filter, PreprocessError> {
        self.get("resample").map_or(Ok(default), |value| {
            value.as_u64().and_then(Filter::from_number).ok_or_else(|| {
                let names = "0 (nearest), 1 (lanczos), 2 (bilinear), 3 (bicubic), 4 (box) or 5 (hamming)";
                self.wrong("resample", names)
            })
        })
    }

    fn size(&self, field: &'static str, square: bool) -> Result<Option<Size>, PreprocessError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let wrong = || {
            self.wrong(
                field,
                "a number of pixels, or an object with `height` and `width`, with `shortest_edge` (and \
                 optionally `longest_edge`), or with `max_height` and `max_width`, each from 1 to 65536",
            )
        };
        let edge = |value: &Value| {
            let edge = value.as_u64().filter(|edge| (1..=MAX_EDGE).contains(edge)).ok_or_else(wrong)?;
            Ok(edge as usize)
        };
        let size = match value {
            Value::Object(of) => {
                let mut keys: Vec<&str> =
                    of.iter().filter(|(_, v)| !v.is_null()).map(|(k, _)| k.as_str()).collect();
                keys.sort_unstable();
                match keys[..] {
                    ["height", "width"] => {
                        Size::Exact { height: edge(&of["height"])?, width: edge(&of["width"])? }
                    }
                    ["shortest_edge"] => Size::Shortest(edge(&of["shortest_edge"])?),
                    ["longest_edge", "shortest_edge"] => Size::Between {
                        shortest: edge(&of["shortest_edge"])?,
                        longest: edge(&of["longest_edge"])?,
                    },
                    ["max_height", "max_width"] => {
                        Size::Within { height: edge(&of["max_height"])?, width: edge(&of["max_width"])? }
                    }
                    _ => return Err(wrong()),
                }
            }
            Value::Array(of) if of.len() == 2 => Size::Exact { height: edge(&of[0])?, width: edge(&of[1])? },
            value if square => Size::Exact { height: edge(value)?, width: edge(value)? },
            value => Size::Shortest(edge(value)?),
        };
        Ok(Some(size))
    }

    fn triple(
        &self,
        field: &'static str,
        default: [f64; 3],
        valid: fn(f64) -> bool,
    ) -> Result<[f64; 3], PreprocessError> {
        let Some(value) = self.get(field) else { return Ok(default) };
        let numbers: Option<Vec<f64>> = match value {
            Value::Array(of) => of.iter().map(Value::as_f64).collect(),
            value => value.as_f64().map(|x| vec![x; 3]),
        };
        numbers
            .and_then(|x| <[f64; 3]>::try_from(x).ok())
            .filter(|x| x.iter().all(|x| x.abs() <= 1e30 && valid(*x)))
            .ok_or_else(|| self.wrong(field, "three numbers (red, green, blue); a deviation must not be 0"))
    }
}

fn shorten(value: &Value) -> String {
    let mut text = value.to_string();
    if text.chars().count() > 80 {
        text = text.chars().take(79).collect::<String>() + "…";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_config_without_images_defers_to_the_older_file_and_a_torn_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("preprocessor_config.json", r#"{"image_processor_type": "ViTImageProcessor", "size": 96}"#);
        let clip = r#"{"image_processor_type": "CLIPImageProcessor", "crop_size": 64}"#;
        for (own, edge) in [("null", 96), (clip, 64)] {
            write("processor_config.json", &format!(r#"{{"image_processor": {own}}}"#));
            assert_eq!(Preprocessor::open(folder.path()).unwrap().output(), Some((edge, edge)), "{own}");
        }
        write("processor_config.json", r#"{"image_processor": {"#);
        let torn = Preprocessor::open(folder.path()).unwrap_err().to_string();
        assert!(torn.contains("processor_config.json: is not a JSON object"), "{torn}");
    }
}
