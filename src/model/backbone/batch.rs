//! How many images fit in a GPU's memory, how many of them are processed per pass, and how batches are spread over CPU cores.

use burn::tensor::Device;
use rayon::prelude::*;

use super::config::Config;
use crate::model::device::FreeMemory;

/// Most bytes of a copy to a GPU or back. The allocator reuses blocks below 32 MiB, but maps a larger one anew, page by page
/// (`app::process_memory`), which takes longer than the copy.
const MAX_COPY_BYTES: usize = 31 << 20;
/// Fewest images of a pass, even if their copy is larger: smaller matrix products do not occupy a GPU.
const MIN_IMAGES: usize = 16;

/// Images per pass, when a batch is split into passes of about equal size that copy `numbers` floats per image.
pub(super) fn images_a_pass(batch: usize, numbers: usize) -> usize {
    let most = (MAX_COPY_BYTES / (4 * numbers)).max(MIN_IMAGES);
    batch.div_ceil(batch.div_ceil(most))
}

/// Number of images, of `tokens` tokens and `pixels` values each, that fit in `memory` in one forward pass, at least 1.
///
/// The largest tensors of a layer are the attention logits, `[heads, T, T]`, and the hidden layer of the
/// feed-forward network, `[T, mlp_dim]`; about three of each are alive at a time. The other half of the
/// memory is left to the weights and the device's memory pools.
pub(super) fn images_at_once(config: &Config, tokens: usize, pixels: usize, memory: FreeMemory) -> usize {
    let Config { width, heads, mlp_dim, .. } = *config;
    let logits = 4 * (heads * tokens * tokens) as u64;
    let inside = 4 * (tokens * (3 * width).max(mlp_dim * (1 + usize::from(config.gated)))) as u64;
    let pixels = 4 * pixels as u64;
    let by_tensor = memory.tensor / logits.max(inside).max(pixels);
    let by_all = memory.all.map_or(u64::MAX, |all| all / 2 / (3 * logits + 3 * inside + 2 * pixels));
    usize::try_from(by_tensor.min(by_all)).unwrap_or(usize::MAX).max(1)
}

/// The CPU cores that batches are spread over: burn's CPU backend runs all but matrix products on one. 1 on a GPU.
pub(super) fn cores(device: &Device) -> usize {
    if *device == Device::flex() { rayon::current_num_threads() } else { 1 }
}

/// The results of `run` for all batches in order, which are computed at the same time where there are several [`cores`].
pub(super) fn run_all<B: Send, T: Send>(
    batches: Vec<B>,
    device: &Device,
    run: impl Fn(B) -> Vec<T> + Send + Sync,
) -> Vec<T> {
    match cores(device) {
        1 => batches.into_iter().flat_map(run).collect(),
        _ => batches.into_par_iter().flat_map_iter(run).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_bound_counts_and_one_image_is_always_tried() {
        let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/backbones/vit");
        let tiny = Config::open(tiny.as_ref()).unwrap();
        let config = Config { width: 768, heads: 12, mlp_dim: 3072, ..tiny };
        let at_once = |tokens, memory| images_at_once(&config, tokens, 3 * 224 * 224, memory);
        let memory = |tensor: u64, all: Option<u64>| FreeMemory {
            tensor: tensor << 20,
            all: all.map(|all| all << 20),
        };
        assert_eq!(at_once(197, memory(128, None)), 55); // inside: 4 x 197 x 3072 bytes
        assert_eq!(at_once(577, memory(128, None)), 8); // logits: 4 x 12 x 577^2 bytes
        assert_eq!(at_once(197, memory(20_480, Some(512))), 19);
        assert_eq!(at_once(4097, memory(16, Some(64))), 1);
    }

    #[test]
    fn passes_are_about_equal_and_never_tiny() {
        let a_pass = |batch| images_a_pass(batch, 197 * 768); // 53 fill a copy
        assert_eq!([1, 53, 54, 256, 5000].map(a_pass), [1, 53, 27, 52, 53]);
        assert_eq!([16, 17, 64].map(|batch| images_a_pass(batch, 1370 * 1024)), [16, 9, 16]);
    }
}
