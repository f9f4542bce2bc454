//! One launch over many tensors of different lengths, as an optimiser's step needs it: each tensor gets its own workgroups.

use burn_cubecl::cubecl::client::Client;

use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup, and the stride of a thread's loop over its numbers.
pub(crate) const STRIDE: usize = 256;
/// Numbers per workgroup: few, so that small tensors finish soon and large ones have many workgroups.
const WORKGROUP_VALUES: usize = 4 * STRIDE;
/// Most items of a launch: older CUDA has room for 4,352 bytes of arguments, of which an item of seven buffers takes some 90.
const MAX_ITEMS: usize = 40;

/// The range of workgroups, `begin..end`, of one item of a launch.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Share {
    begin: usize,
    end: usize,
}

#[cube]
impl Share {
    /// Whether this workgroup is in the range.
    pub fn is_own(&self) -> bool {
        CUBE_POS >= self.begin && CUBE_POS < self.end
    }

    /// The range of this thread's indices, `first..end` in steps of [`STRIDE`], in an item of `len` numbers.
    pub fn numbers(&self, len: usize) -> (usize, usize) {
        let first = (CUBE_POS - self.begin) * WORKGROUP_VALUES;
        (first + UNIT_POS as usize, usize::min(first + WORKGROUP_VALUES, len))
    }
}

/// Launches a kernel over all items, as many per launch as its arguments and the device's bindings allow. An item has `buffers`
/// buffers of `len` numbers each; the kernel has `other_buffers` besides.
pub(crate) fn launch_each<T, A: LaunchArg>(
    client: &Client,
    items: &[T],
    [buffers, other_buffers]: [usize; 2],
    len: impl Fn(&T) -> usize,
    argument: impl Fn(&T, ShareLaunch) -> A::RuntimeArg,
    launch: impl Fn(CubeCount, CubeDim, SequenceArg<A>),
) {
    let most = (client.properties().hardware.max_bindings as usize - other_buffers) / buffers;
    for items in items.chunks(most.clamp(1, MAX_ITEMS)) {
        let (mut arguments, mut cubes) = (SequenceArg::new(), 0);
        for item in items {
            let begin = cubes;
            cubes += len(item).div_ceil(WORKGROUP_VALUES);
            arguments.push(argument(item, ShareLaunch::new(begin, cubes)));
        }
        launch(workgroups(cubes), CubeDim::new_1d(STRIDE as u32), arguments);
    }
}
