//! How a backbone reads images: after which layer, at which size, in which order of patches.

use serde::{Deserialize, Serialize};

use crate::model::backbone::order::MaeOrder;
use crate::model::backbone::token_spec::TokenSpec;

/// How a backbone reads images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct BackboneOptions {
    /// The layer whose tokens are read; the last where absent.
    pub layer: Option<usize>,
    /// How many layers are joined, that one the last; one where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<usize>,
    /// Side of the image in pixels, instead of the preprocessor's own.
    pub pixels: Option<usize>,
    /// In which order ViT-MAE hands out its patch tokens.
    pub mae_order: MaeOrder,
}

impl BackboneOptions {
    /// The tokens that it reads.
    pub fn token_spec(self) -> TokenSpec {
        let Self { layer, blocks, pixels, mae_order } = self;
        TokenSpec { layer, blocks, size: pixels, mae_order, ..TokenSpec::default() }
    }

    /// How images are read for these tokens.
    pub fn from_spec(token_spec: TokenSpec) -> Self {
        let TokenSpec { layer, blocks, size, mae_order, .. } = token_spec;
        Self { layer, blocks, pixels: size, mae_order }
    }

    /// Layer and size, as far as they are chosen: `layer 2, 224 px`.
    pub fn short(self) -> String {
        let layer = self.token_spec().layers();
        self.pixels.map_or_else(|| layer.clone(), |pixels| format!("{layer}, {pixels} px"))
    }

    /// It in a few words: `layer 2, 224 px`.
    pub fn text(self) -> String {
        let layer = self.token_spec().layers();
        let size = self.pixels.map_or("own size".to_owned(), |pixels| format!("{pixels} px"));
        let order = self.mae_order.words().map_or_else(String::new, |words| format!(", {words}"));
        format!("{layer}, {size}{order}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_how_tokens_are_taken_and_back() {
        let mae_order = MaeOrder::Shuffled(5);
        let options = BackboneOptions { layer: Some(2), blocks: None, pixels: Some(64), mae_order };
        let token_spec = options.token_spec();
        assert_eq!(
            (token_spec.layer, token_spec.size, token_spec.mae_order),
            (Some(2), Some(64), MaeOrder::Shuffled(5))
        );
        assert_eq!(BackboneOptions::from_spec(token_spec), options);
        assert_eq!(options.short(), "layer 2, 64 px");
        assert_eq!(BackboneOptions::default().short(), "last layer");
        assert_eq!(options.text(), "layer 2, 64 px, shuffled by seed 5");
        let joined = BackboneOptions { blocks: Some(4), ..BackboneOptions::default() };
        assert_eq!((joined.token_spec().blocks, joined.short().as_str()), (Some(4), "last 4 layers"));
    }
}
