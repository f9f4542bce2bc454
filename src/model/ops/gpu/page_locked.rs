//! Page-locked memory of the host, which a GPU reads by DMA, for data that are yet to be written into it.

use std::iter;
use std::mem::MaybeUninit;

use burn::tensor::{Bytes, DType, Device, TensorData};
use burn_cubecl::cubecl::bytes::{AccessError, AccessPolicy, AllocationController, AllocationProperty};

/// `size` bytes of page-locked memory with arbitrary contents, for an upload to `device`; `None` where uploads need none, as on
/// the CPU and through Vulkan, or if it cannot be allocated.
pub(crate) fn page_locked(size: usize, device: &Device) -> Option<Bytes> {
    // SAFETY: `Uninitialised` gives no access to any memory, so none of these bytes is ever read.
    #[expect(unsafe_code, reason = "the only way to ask burn for page-locked memory")]
    let nothing = unsafe { Bytes::from_controller(Box::new(Uninitialised(size)), size) };
    let mut data = TensorData::from_bytes(nothing, [size], DType::U8);
    device.staging(iter::once(&mut data));
    let (bytes, ..) = data.into_parts();
    (bytes.property() == AllocationProperty::Pinned).then_some(bytes)
}

/// This many bytes without contents: burn allocates page-locked memory only for a copy, and this one copies nothing.
struct Uninitialised(usize);

#[expect(unsafe_code, reason = "the trait's methods")]
impl AllocationController for Uninitialised {
    fn alloc_align(&self) -> usize {
        1
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Native
    }

    unsafe fn memory_mut(&mut self, _: AccessPolicy) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        Err(AccessError::Read("memory without contents".to_owned()))
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        Err(AccessError::Read("memory without contents".to_owned()))
    }

    fn capacity(&self) -> usize {
        self.0
    }

    unsafe fn copy_into(&self, _: &mut [u8]) {}
}

#[cfg(test)]
mod gpu_tests {
    use super::*;
    use crate::gpus::gpus;

    #[test]
    fn cuda_alone_has_page_locked_memory_which_can_be_written() {
        assert!(page_locked(64, &Device::flex()).is_none());
        for (name, gpu) in gpus() {
            let bytes = page_locked(64, &gpu);
            assert_eq!(bytes.is_some(), name.starts_with("cuda"), "{name}");
            if let Some(mut bytes) = bytes {
                bytes.copy_from_slice(&[7; 64]);
                assert!(bytes.iter().all(|byte| *byte == 7) && bytes.len() == 64, "{name}");
            }
        }
    }
}
