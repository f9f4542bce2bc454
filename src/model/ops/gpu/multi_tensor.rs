//! One launch over many tensors of different lengths, as an optimiser's step needs it: each tensor has workgroups of its own.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::client::Client;
use cubecl::prelude::*;

use super::workgroups;

/// Threads of a workgroup, and from one of a thread's numbers to its next.
pub(crate) const STRIDE: usize = 256;
/// Numbers of a workgroup: few, so that those of small tensors are soon through, and of large ones there are many.
const VALUES: usize = 4 * STRIDE;
/// Items of a launch, at most: older CUDA has room for 4,352 bytes of arguments, of which an item of seven buffers takes some 90.
const MOST: usize = 40;

/// The workgroups of an item of a launch.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Share {
    begun: usize,
    /// The first that is no more its own.
    ended: usize,
}

#[cube]
impl Share {
    /// Whether this workgroup is one of them.
    pub fn is_own(&self) -> bool {
        CUBE_POS >= self.begun && CUBE_POS < self.ended
    }

    /// The first of this thread's numbers, of which there is one every [`STRIDE`], and what they lie below: `len` is how many the
    /// item has.
    pub fn numbers(&self, len: usize) -> (usize, usize) {
        let first = (CUBE_POS - self.begun) * VALUES;
        (first + UNIT_POS as usize, usize::min(first + VALUES, len))
    }
}

/// Makes the arguments of as many items as a launch has room for, and launches them, until all are. An item has `buffers` of `len`
/// numbers; the kernel `beside` them some more.
pub(crate) fn launch_each<T, A: LaunchArg>(
    client: &Client,
    items: &[T],
    [buffers, beside]: [usize; 2],
    len: impl Fn(&T) -> usize,
    argument: impl Fn(&T, ShareLaunch) -> A::RuntimeArg,
    launch: impl Fn(CubeCount, CubeDim, SequenceArg<A>),
) {
    let most = (client.properties().hardware.max_bindings as usize - beside) / buffers;
    for items in items.chunks(most.clamp(1, MOST)) {
        let (mut arguments, mut cubes) = (SequenceArg::new(), 0);
        for item in items {
            let begun = cubes;
            cubes += len(item).div_ceil(VALUES);
            arguments.push(argument(item, ShareLaunch::new(begun, cubes)));
        }
        launch(workgroups(cubes), CubeDim::new_1d(STRIDE as u32), arguments);
    }
}
