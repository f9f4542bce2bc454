//! Work given to a stream: done before the call returns, or, while the stream is being captured, recorded for a graph that does it
//! at every launch.
//!
//! Calls that NVIDIA's driver refuses during a capture are refused here: waiting for a captured stream, and calls that are not
//! ordered in a stream, such as an allocation. They invalidate the capture, whose end then gives no graph.

use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::driver::{self, Copy2d, Status};
use crate::machine::Launch;
use crate::parse::Kernel;

pub const ILLEGAL_STATE: Status = 401;
pub const CAPTURE_UNSUPPORTED: Status = 900;
pub const CAPTURE_INVALIDATED: Status = 901;
pub const CAPTURE_ISOLATION: Status = 905;
pub const CAPTURED_EVENT: Status = 907;
pub const CAPTURE_WRONG_THREAD: Status = 908;

/// The first stream that a program creates; those below are the driver's own, which cannot be captured.
pub const FIRST_STREAM: usize = 16;

#[derive(Clone)]
pub enum Work {
    /// A kernel with a copy of its parameters.
    Kernel {
        kernel: &'static Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        shared: usize,
        params: Vec<u128>,
    },
    /// Only the addresses are recorded: as in NVIDIA's graphs, data of the host is read when the graph is launched.
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
        on_card: [u64; 2],
    },
    Rows(Copy2d),
    /// An allocation or release in stream order, which a graph only lists, by its node type.
    Memory(c_int),
}

impl Work {
    /// The `CUgraphNodeType`.
    pub fn kind(&self) -> c_int {
        match self {
            Self::Kernel { .. } => 0,
            Self::Copy { .. } | Self::Rows(_) => 1,
            Self::Memory(kind) => *kind,
        }
    }

    /// # Safety
    /// Host addresses must be valid for the access.
    pub unsafe fn run(&self) -> Status {
        match self {
            Self::Kernel { kernel, grid, block, shared, params } => {
                // SAFETY: the bytes of a live vector.
                let params = unsafe { std::slice::from_raw_parts(params.as_ptr().cast(), params.len() * 16) };
                driver::launch(&Launch { kernel, grid: *grid, block: *block, shared: *shared, params })
            }
            Self::Copy { to, from, bytes, on_card } => unsafe { driver::copy(*to, *from, *bytes, *on_card) },
            Self::Rows(plan) => unsafe { driver::copy_rows(plan) },
            Self::Memory(_) => driver::SUCCESS,
        }
    }
}

/// A stream that is being captured.
struct Capture {
    stream: usize,
    /// The `CUstreamCaptureMode`: unsafe calls are refused from 0 all threads, 1 its own thread, 2 no thread.
    mode: c_uint,
    thread: ThreadId,
    work: Vec<Work>,
    invalidated: bool,
}

static CAPTURES: Mutex<Vec<Capture>> = Mutex::new(Vec::new());

fn captures() -> MutexGuard<'static, Vec<Capture>> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The `CUstreamCaptureStatus`: 0 not captured, 1 being captured, 2 invalidated.
pub fn state(stream: usize) -> c_int {
    captures().iter().find(|own| own.stream == stream).map_or(0, |own| 1 + c_int::from(own.invalidated))
}

/// # Safety
/// As for `Work::run`.
pub unsafe fn submit(stream: usize, work: Work) -> Status {
    let mut all = captures();
    match all.iter_mut().find(|own| own.stream == stream) {
        Some(own) if own.invalidated => CAPTURE_INVALIDATED,
        Some(own) => {
            own.work.push(work);
            driver::SUCCESS
        }
        None => {
            drop(all);
            unsafe { work.run() }
        }
    }
}

pub fn begin(stream: usize, mode: c_uint) -> Status {
    let mut all = captures();
    if stream < FIRST_STREAM {
        return CAPTURE_UNSUPPORTED;
    }
    if mode > 2 {
        return driver::INVALID_VALUE;
    }
    if all.iter().any(|own| own.stream == stream) {
        return ILLEGAL_STATE;
    }
    all.push(Capture { stream, mode, thread: thread::current().id(), work: Vec::new(), invalidated: false });
    driver::SUCCESS
}

pub fn end(stream: usize) -> Result<Vec<Work>, Status> {
    let mut all = captures();
    let at = all.iter().position(|own| own.stream == stream).ok_or(ILLEGAL_STATE)?;
    if all[at].mode != 2 && all[at].thread != thread::current().id() {
        return Err(CAPTURE_WRONG_THREAD);
    }
    let own = all.swap_remove(at);
    if own.invalidated { Err(CAPTURE_INVALIDATED) } else { Ok(own.work) }
}

fn invalidate(call: &str, is_concerned: impl Fn(&Capture) -> bool) -> bool {
    let mut all = captures();
    let concerned = all.iter_mut().filter(|own| is_concerned(own)).map(|own| own.invalidated = true).count();
    if concerned > 0 {
        driver::log(&format!("{call} while a stream records, which spoils the recording"));
    }
    concerned > 0
}

/// Whether a capture forbids this call; it is then invalidated.
pub fn forbids(call: &str) -> bool {
    let here = thread::current().id();
    invalidate(call, |own| own.mode == 0 || own.mode == 1 && own.thread == here)
}

/// The same for a call on one stream, or on all of them, whatever the mode of the capture.
pub fn forbids_on(call: &str, stream: Option<usize>) -> bool {
    invalidate(call, |own| stream.is_none_or(|stream| own.stream == stream))
}

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, c_void};
    use std::ptr::null_mut;

    use super::*;
    use crate::driver::*;

    const ADDS: &CStr = c".version 8.0\n.target sm_90\n.address_size 64\n
        .visible .entry adds(.param .u64 at, .param .u32 by)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<3>;
        ld.param.u64 %rd1, [at];\nld.param.u32 %r1, [by];\ncvta.to.global.u64 %rd2, %rd1;
        ld.global.u32 %r2, [%rd2];\nadd.s32 %r3, %r2, %r1;\nst.global.u32 [%rd2], %r3;\nret;\n}\n";

    /// One test, as a call that invalidates one capture also invalidates those of other threads.
    #[test]
    fn a_graph_does_each_time_what_was_noted_and_a_spoiled_recording_gives_none() {
        let [mut module, mut adds, mut stream, mut other, mut graph, mut exec, mut event] =
            [null_mut::<c_void>(); 7];
        let (mut card, mut by, mut host, mut seen) = (0_u64, 5_u32, 0_u32, 0_u32);
        // SAFETY: all pointers are to locals that live until the end.
        unsafe {
            assert_eq!(cuModuleLoadData(&mut module, ADDS.as_ptr().cast()), SUCCESS);
            assert_eq!(cuModuleGetFunction(&mut adds, module, c"adds".as_ptr()), SUCCESS);
            assert_eq!((cuStreamCreate(&mut stream, 1), cuStreamCreate(&mut other, 1)), (SUCCESS, SUCCESS));
            assert_eq!((cuMemAlloc_v2(&mut card, 4), cuEventCreate(&mut event, 0)), (SUCCESS, SUCCESS));

            assert_eq!(cuStreamBeginCapture_v2(stream, 0), SUCCESS);
            let from = &raw mut host;
            assert_eq!(cuMemcpyHtoDAsync_v2(card, from.cast(), 4, stream), SUCCESS);
            let by = &raw mut by;
            let mut args = [(&raw mut card).cast(), by.cast()];
            let args = args.as_mut_ptr();
            assert_eq!(cuLaunchKernel(adds, 1, 1, 1, 1, 1, 1, 0, stream, args, null_mut()), SUCCESS);
            by.write(0);
            assert_eq!(
                (cuEventRecord(event, stream), cuStreamWaitEvent(stream, event, 0)),
                (SUCCESS, SUCCESS)
            );
            let to = (&raw mut seen).cast();
            assert_eq!(
                (cuMemcpyDtoHAsync_v2(to, card, 4, other), seen),
                (SUCCESS, u32::MAX),
                "noted is not done"
            );
            assert_eq!(cuStreamEndCapture(stream, &mut graph), SUCCESS);

            let (mut nodes, mut kinds, mut count) = ([null_mut(); 3], [9; 2], 0);
            assert_eq!((cuGraphGetNodes(graph, null_mut(), &mut count), count), (SUCCESS, 2));
            count = 3;
            assert_eq!((cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count), count), (SUCCESS, 2));
            kinds
                .iter_mut()
                .zip(nodes)
                .for_each(|(kind, node)| assert_eq!(cuGraphNodeGetType(node, kind), SUCCESS));
            assert_eq!((kinds, nodes[2]), ([1, 0], null_mut()));
            assert_eq!(
                (cuGraphInstantiateWithFlags(&mut exec, graph, 0), cuGraphDestroy(graph)),
                (SUCCESS, SUCCESS)
            );
            for now in [10, 20] {
                from.write(now);
                assert_eq!((cuGraphUpload(exec, stream), cuGraphLaunch(exec, stream)), (SUCCESS, SUCCESS));
                assert_eq!((cuMemcpyDtoHAsync_v2(to, card, 4, stream), seen), (SUCCESS, now + 5));
            }
            assert_eq!(cuGraphExecDestroy(exec), SUCCESS);

            let spoils: [(&dyn Fn() -> Status, Status); 8] = [
                (&|| cuCtxSynchronize(), CAPTURE_UNSUPPORTED),
                (&|| cuStreamSynchronize(stream), CAPTURE_UNSUPPORTED),
                (&|| cuMemAlloc_v2(&mut 0, 4), CAPTURE_UNSUPPORTED),
                (&|| cuMemFree_v2(card), CAPTURE_UNSUPPORTED),
                (&|| cuEventQuery(event), CAPTURE_UNSUPPORTED),
                (&|| cuEventRecord(event, stream).max(cuEventSynchronize(event)), CAPTURED_EVENT),
                (&|| cuStreamWaitEvent(stream, event, 0), CAPTURE_ISOLATION),
                (&|| cuModuleLoadData(&mut null_mut(), ADDS.as_ptr().cast()), CAPTURE_UNSUPPORTED),
            ];
            for (at, (call, status)) in spoils.into_iter().enumerate() {
                assert_eq!(
                    (cuEventRecord(event, other), cuStreamBeginCapture_v2(stream, 0)),
                    (SUCCESS, SUCCESS)
                );
                assert_eq!((call(), state(stream as usize)), (status, 2), "{at}");
                assert_eq!(cuMemcpyHtoDAsync_v2(card, from.cast(), 4, stream), CAPTURE_INVALIDATED);
                let captured = stream as usize;
                let elsewhere = thread::spawn(move || end(captured).err());
                assert_eq!(elsewhere.join().expect("a thread"), Some(CAPTURE_WRONG_THREAD));
                assert_eq!(
                    (cuStreamEndCapture(stream, &mut graph), graph),
                    (CAPTURE_INVALIDATED, null_mut())
                );
                assert_eq!(
                    (cuStreamEndCapture(stream, &mut graph), call()),
                    (ILLEGAL_STATE, SUCCESS),
                    "{at}"
                );
            }
        }
    }
}
