//! Reads the header of a safetensors file into views; the values stay on disk.
//!
//! Eight bytes of header length, a JSON header, then the values, row-major and without gaps:
//! <https://huggingface.co/docs/safetensors>. The safetensors crate checks types, sizes and
//! offsets; duplicate names, which JSON parsers accept, are refused here.

use safetensors::SafeTensors;

use super::error::WeightsError;
use super::file::Mapped;
use super::index::unique_keys;
use super::view::View;

const FORMAT: &str = "safetensors";
/// Largest header read, in bytes; those of the largest vision models are below 1 MB.
const MAX_HEADER: u64 = 32 << 20;

/// Names and views of the tensors of `file`, in the order of their data.
pub(super) fn tensors(file: &Mapped) -> Result<Vec<(String, View)>, WeightsError> {
    let Some(length) = file.first_chunk::<8>().copied().map(u64::from_le_bytes) else {
        return Err(file.damaged(FORMAT, format!("it has only {} bytes", file.len())));
    };
    if length > MAX_HEADER || length + 8 > file.len() as u64 {
        let what = format!("its header claims {length} bytes, but the file has {} in all", file.len());
        return Err(file.damaged(FORMAT, what));
    }
    let data = 8 + length as usize;
    let (_, header) =
        SafeTensors::read_metadata(file).map_err(|error| file.damaged(FORMAT, error.to_string()))?;
    unique_keys(&file[8..data]).map_err(|error| file.damaged(FORMAT, error))?;
    let mut views = Vec::new();
    for name in header.offset_keys() {
        let info = header.info(&name).expect("a name that the header just gave");
        let view = View::row_major(&info.shape).and_then(|strides| {
            let stored = info.shape.iter().try_fold(1_usize, |n, &x| n.checked_mul(x))?;
            let start = data.checked_add(info.data_offsets.0)?;
            Some(View { dtype: info.dtype, start, stored, offset: 0, shape: info.shape.clone(), strides })
        });
        let flaw = view.as_ref().map_or(Some("its size overflows".into()), |view| view.flaw(file.len()));
        if let Some(flaw) = flaw {
            return Err(file.damaged(FORMAT, format!("tensor {name:?}: {flaw}")));
        }
        views.extend(view.map(|view| (name, view)));
    }
    Ok(views)
}
