//! The functions of libcuda that burn calls. Device memory is host memory, and all work is done before a call returns, except what `graphs` records.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use crate::graphs::{self, CAPTURE_ISOLATION, CAPTURE_UNSUPPORTED, CAPTURED_EVENT, Work};
use crate::machine::{Block, Launch};
use crate::parse::{self, Kernel};
use crate::races;

pub type Status = c_int;
pub const SUCCESS: Status = 0;
pub const INVALID_VALUE: Status = 1;
const OUT_OF_MEMORY: Status = 2;
const INVALID_PTX: Status = 218;
const NOT_FOUND: Status = 500;
const ILLEGAL_ADDRESS: Status = 700;
const NOT_SUPPORTED: Status = 801;

/// Memory of the device in bytes, from `CUDA_EMULATOR_MEMORY`.
fn capacity() -> usize {
    std::env::var("CUDA_EMULATOR_MEMORY").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(8 << 30)
}

/// Compute capability, from `CUDA_EMULATOR_CAPABILITY`, as 75 for 7.5: devices before 8.0 do not round to TF32, and CubeCL uses
/// another layout for rows of products there.
fn capability() -> c_int {
    std::env::var("CUDA_EMULATOR_CAPABILITY").ok().and_then(|digits| digits.parse().ok()).unwrap_or(90)
}

pub static ATOMICS: Mutex<()> = Mutex::new(());
static MEMORY: RwLock<BTreeMap<u64, usize>> = RwLock::new(BTreeMap::new());
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static BROKEN: AtomicBool = AtomicBool::new(false);

/// With CUDA_EMULATOR_SKIP no kernel runs and all memory is 0: the time of a step is then that of the host.
fn skips() -> bool {
    static SKIPS: OnceLock<bool> = OnceLock::new();
    *SKIPS.get_or_init(|| std::env::var_os("CUDA_EMULATOR_SKIP").is_some())
}

fn traces() -> bool {
    std::env::var_os("CUDA_EMULATOR_TRACE").is_some()
}

pub fn add_allocation(at: u64, bytes: usize) {
    MEMORY.write().unwrap_or_else(PoisonError::into_inner).insert(at, bytes);
}

pub fn is_allocated(at: u64, bytes: usize) -> bool {
    thread_local!(static LAST: std::cell::Cell<(u64, u64)> = const { std::cell::Cell::new((0, 0)) });
    let (start, end) = LAST.get();
    if at >= start && at + bytes as u64 <= end {
        return true;
    }
    let memory = MEMORY.read().unwrap_or_else(PoisonError::into_inner);
    let Some((start, length)) = memory.range(..=at).next_back() else { return false };
    let end = start + *length as u64;
    // A thread does not notice if the allocation that it used last is freed in the meantime.
    LAST.set((*start, end));
    at + bytes as u64 <= end
}

/// With CUDA_EMULATOR_SEED, random milliseconds: autotuning, which takes the fastest of several kernels, then takes any of them,
/// and others with another seed.
fn random_time() -> Option<f32> {
    static STATE: Mutex<Option<u64>> = Mutex::new(None);
    let seed: u64 = std::env::var("CUDA_EMULATOR_SEED").ok()?.parse().ok()?;
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut x = state.unwrap_or(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = Some(x);
    Some(0.01 + (x >> 40) as f32 / (1 << 24) as f32)
}

pub fn log(text: &str) {
    eprintln!("cuda-emulator: {text}");
}

unsafe fn put<T>(to: *mut T, value: T) -> Status {
    unsafe { to.write(value) };
    SUCCESS
}

macro_rules! nothing {
    ($($name:ident($($arg:ident: $ty:ty),*));* $(;)?) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($(_: $ty),*) -> Status { $(let _ = stringify!($arg);)* SUCCESS }
    )*};
}
nothing! {
    cuInit(flags: c_uint);
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    cuCtxSetCurrent(context: *mut c_void);
    cuStreamDestroy_v2(stream: *mut c_void);
    cuModuleUnload(module: *mut c_void);
    cuFuncSetAttribute(function: *mut c_void, attribute: c_int, value: c_int);
    cuGraphUpload(exec: *mut c_void, stream: *mut c_void);
}

macro_rules! api {
    ($($name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> Status { #[allow(unused_unsafe)] unsafe { $body } }
    )*};
}
api! {
    cuDriverGetVersion(to: *mut c_int) { put(to, 13000) }
    cuDeviceGetCount(to: *mut c_int) { put(to, 1) }
    cuDeviceGet(to: *mut c_int, index: c_int) { if index == 0 { put(to, 0) } else { 101 } }
    cuDeviceGetName(to: *mut c_char, length: c_int, _device: c_int) {
        let name = b"NVIDIA H100 (emulated)\0";
        std::ptr::copy_nonoverlapping(name.as_ptr().cast(), to, name.len().min(length as usize));
        SUCCESS
    }
    cuDeviceTotalMem_v2(to: *mut usize, _device: c_int) { put(to, capacity()) }
    cuDeviceGetPCIBusId(to: *mut c_char, length: c_int, _device: c_int) {
        let name = b"0000:00:00.0\0";
        std::ptr::copy_nonoverlapping(name.as_ptr().cast(), to, name.len().min(length as usize));
        SUCCESS
    }
    cuDeviceGetAttribute(to: *mut c_int, attribute: c_int, _device: c_int) {
        put(to, match attribute {
            1 => 1024,
            2 | 3 => 1024,
            4 => 64,
            5 => i32::MAX,
            6 | 7 => 65535,
            8 => 49152,
            10 => 32,
            16 => 132,
            39 => 2048,
            75 => capability() / 10,
            76 => capability() % 10,
            81 => 233_472,
            97 => 232_448,
            115 => 1,
            _ => { log(&format!("an attribute is asked for that is not known: {attribute}")); 0 }
        })
    }
    cuDevicePrimaryCtxRetain(to: *mut *mut c_void, _device: c_int) { put(to, 8 as *mut c_void) }
    cuCtxGetCurrent(to: *mut *mut c_void) { put(to, 8 as *mut c_void) }
    cuCtxSynchronize() { if graphs::forbids_on("cuCtxSynchronize", None) { CAPTURE_UNSUPPORTED } else { SUCCESS } }
    cuCtxGetStreamPriorityRange(least: *mut c_int, most: *mut c_int) { put(least, 0); put(most, 0) }
    cuStreamCreate(to: *mut *mut c_void, _flags: c_uint) {
        static NEXT: AtomicUsize = AtomicUsize::new(graphs::FIRST_STREAM);
        put(to, NEXT.fetch_add(16, Ordering::Relaxed) as *mut c_void)
    }
    cuStreamCreateWithPriority(to: *mut *mut c_void, flags: c_uint, _priority: c_int) { cuStreamCreate(to, flags) }
    cuStreamSynchronize(stream: *mut c_void) {
        let name = "cuStreamSynchronize";
        if graphs::forbids_on(name, Some(stream as usize)) || graphs::forbids(name) { CAPTURE_UNSUPPORTED } else { SUCCESS }
    }
    cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: c_uint) {
        let (stream, captured_on) = (stream as usize, (*event.cast::<Event>()).captured_on);
        if graphs::state(stream) == 2 { return graphs::CAPTURE_INVALIDATED; }
        if captured_on == Some(stream) { return SUCCESS; }
        // A graph cannot wait for an event outside of it.
        if graphs::forbids_on("cuStreamWaitEvent for another stream", Some(stream)) { return CAPTURE_ISOLATION; }
        // NVIDIA's driver would capture this stream as well.
        if let Some(other) = captured_on && graphs::forbids_on("cuStreamWaitEvent of a second stream", Some(other)) { return NOT_SUPPORTED; }
        SUCCESS
    }
    cuStreamBeginCapture_v2(stream: *mut c_void, mode: c_uint) { graphs::begin(stream as usize, mode) }
    cuStreamIsCapturing(stream: *mut c_void, to: *mut c_int) { put(to, graphs::state(stream as usize)) }
    cuStreamEndCapture(stream: *mut c_void, to: *mut *mut c_void) {
        match graphs::end(stream as usize) {
            Ok(work) => put(to, Box::into_raw(Box::new(work)).cast()),
            Err(status) => { put(to, std::ptr::null_mut()); status }
        }
    }
    cuGraphGetNodes(graph: *mut c_void, to: *mut *mut c_void, count: *mut usize) {
        let work = &*graph.cast::<Vec<Work>>();
        if to.is_null() { return put(count, work.len()); }
        let nodes = work.iter().map(|work| std::ptr::from_ref(work) as *mut c_void).chain(std::iter::repeat(std::ptr::null_mut()));
        nodes.take(*count).enumerate().for_each(|(at, node)| to.add(at).write(node));
        put(count, work.len().min(*count))
    }
    cuGraphNodeGetType(node: *mut c_void, to: *mut c_int) { put(to, (*node.cast::<Work>()).kind()) }
    cuGraphInstantiateWithFlags(to: *mut *mut c_void, graph: *mut c_void, _flags: u64) {
        put(to, Box::into_raw(Box::new((*graph.cast::<Vec<Work>>()).clone())).cast())
    }
    cuGraphLaunch(exec: *mut c_void, stream: *mut c_void) {
        // NVIDIA's driver would add the graph to the captured one.
        if graphs::forbids_on("cuGraphLaunch", Some(stream as usize)) { return NOT_SUPPORTED; }
        let (work, begun) = (&*exec.cast::<Vec<Work>>(), Instant::now());
        let status = work.iter().map(|work| work.run()).find(|status| *status != SUCCESS).unwrap_or(SUCCESS);
        if status == SUCCESS && traces() {
            let [kernels, copies] = [0, 1].map(|kind| work.iter().filter(|work| work.kind() == kind).count());
            log(&format!("{:?} a graph of {kernels} kernels and {copies} copies", begun.elapsed()));
        }
        status
    }
    cuGraphDestroy(graph: *mut c_void) { drop(Box::from_raw(graph.cast::<Vec<Work>>())); SUCCESS }
    cuGraphExecDestroy(exec: *mut c_void) { cuGraphDestroy(exec) }
    cuEventCreate(to: *mut *mut c_void, _flags: c_uint) {
        put(to, Box::into_raw(Box::new(Event { at: Instant::now(), captured_on: None })).cast())
    }
    cuEventRecord(event: *mut c_void, stream: *mut c_void) {
        if BROKEN.load(Ordering::Relaxed) { return ILLEGAL_ADDRESS; }
        let captured_on = match graphs::state(stream as usize) {
            0 => None,
            1 => Some(stream as usize),
            _ => return graphs::CAPTURE_INVALIDATED,
        };
        put(event.cast(), Event { at: Instant::now(), captured_on })
    }
    cuEventSynchronize(event: *mut c_void) {
        if let Some(stream) = (*event.cast::<Event>()).captured_on {
            graphs::forbids_on("cuEventSynchronize or cuEventQuery", Some(stream));
            return CAPTURED_EVENT;
        }
        if graphs::forbids("cuEventSynchronize or cuEventQuery") { CAPTURE_UNSUPPORTED } else { SUCCESS }
    }
    cuEventQuery(event: *mut c_void) { cuEventSynchronize(event) }
    cuEventElapsedTime(to: *mut f32, from: *mut c_void, until: *mut c_void) {
        let (from, until) = (&*from.cast::<Event>(), &*until.cast::<Event>());
        if from.captured_on.or(until.captured_on).is_some() { return CAPTURED_EVENT; }
        put(to, random_time().unwrap_or_else(|| (until.at - from.at).as_secs_f32() * 1e3))
    }
    cuEventElapsedTime_v2(to: *mut f32, from: *mut c_void, until: *mut c_void) { cuEventElapsedTime(to, from, until) }
    cuEventDestroy_v2(event: *mut c_void) { drop(Box::from_raw(event.cast::<Event>())); SUCCESS }
    cuMemAlloc_v2(to: *mut u64, bytes: usize) {
        if graphs::forbids("cuMemAlloc") { CAPTURE_UNSUPPORTED } else { cuMemAllocAsync(to, bytes, std::ptr::null_mut()) }
    }
    cuMemAllocAsync(to: *mut u64, bytes: usize, stream: *mut c_void) {
        if ALLOCATED.load(Ordering::Relaxed) + bytes > capacity() { return OUT_OF_MEMORY; }
        ALLOCATED.fetch_add(bytes, Ordering::Relaxed);
        let layout = std::alloc::Layout::from_size_align_unchecked(bytes, 512);
        let memory = std::alloc::alloc(layout);
        // Reading memory that was never written gives NaN.
        std::ptr::write_bytes(memory, if skips() { 0 } else { 0xff }, bytes);
        add_allocation(memory as u64, bytes);
        put(to, memory as u64);
        graphs::submit(stream as usize, Work::Memory(10))
    }
    cuMemFree_v2(at: u64) {
        if graphs::forbids("cuMemFree") { CAPTURE_UNSUPPORTED } else { cuMemFreeAsync(at, std::ptr::null_mut()) }
    }
    cuMemFreeAsync(at: u64, stream: *mut c_void) {
        // The captured graph still uses the memory, so it is not freed.
        if graphs::state(stream as usize) != 0 { return graphs::submit(stream as usize, Work::Memory(11)); }
        let Some(bytes) = MEMORY.write().unwrap_or_else(PoisonError::into_inner).remove(&at) else { return INVALID_VALUE };
        ALLOCATED.fetch_sub(bytes, Ordering::Relaxed);
        std::alloc::dealloc(at as *mut u8, std::alloc::Layout::from_size_align_unchecked(bytes, 512));
        SUCCESS
    }
    cuMemAllocHost_v2(to: *mut *mut c_void, bytes: usize) {
        if graphs::forbids("cuMemAllocHost") { return CAPTURE_UNSUPPORTED; }
        put(to, std::alloc::alloc(std::alloc::Layout::from_size_align_unchecked(bytes + 64, 64)).cast())
    }
    cuMemFreeHost(_at: *mut c_void) { if graphs::forbids("cuMemFreeHost") { CAPTURE_UNSUPPORTED } else { SUCCESS } }
    cuMemGetInfo_v2(free: *mut usize, all: *mut usize) {
        put(free, capacity() - ALLOCATED.load(Ordering::Relaxed));
        put(all, capacity())
    }
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: *mut c_void) {
        graphs::submit(stream as usize, Work::Copy { to, from: from as u64, bytes, on_card: [to; 2] })
    }
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: *mut c_void) {
        graphs::submit(stream as usize, Work::Copy { to: to as u64, from, bytes, on_card: [from; 2] })
    }
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: *mut c_void) {
        graphs::submit(stream as usize, Work::Copy { to, from, bytes, on_card: [from, to] })
    }
    cuMemcpy2DAsync_v2(plan: *const Copy2d, stream: *mut c_void) { graphs::submit(stream as usize, Work::Rows((*plan).clone())) }
    cuModuleLoadData(to: *mut *mut c_void, image: *const c_void) {
        if graphs::forbids("cuModuleLoadData") { return CAPTURE_UNSUPPORTED; }
        let text = CStr::from_ptr(image.cast()).to_string_lossy();
        if let Some(folder) = std::env::var_os("CUDA_EMULATOR_KEEP") {
            let name = format!("{:016x}.ptx", text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)));
            let _ = std::fs::write(std::path::Path::new(&folder).join(name), text.as_bytes());
        }
        match parse::module(&text) {
            Ok(kernels) => put(to, Box::into_raw(Box::new(kernels)).cast()),
            Err(why) => { log(&format!("this PTX cannot be read: {why}")); INVALID_PTX }
        }
    }
    cuModuleGetFunction(to: *mut *mut c_void, module: *mut c_void, name: *const c_char) {
        let (kernels, name) = (&*module.cast::<Vec<Kernel>>(), CStr::from_ptr(name).to_string_lossy());
        match kernels.iter().find(|kernel| kernel.name == name) {
            Some(kernel) => put(to, std::ptr::from_ref(kernel) as *mut c_void),
            None => NOT_FOUND,
        }
    }
    cuLaunchKernel(
        function: *mut c_void, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared: c_uint, stream: *mut c_void, args: *mut *mut c_void, _extra: *mut *mut c_void
    ) {
        if BROKEN.load(Ordering::Relaxed) { return ILLEGAL_ADDRESS; }
        let kernel: &'static Kernel = &*function.cast();
        if shared > 232_448 || block_x * block_y * block_z > 1024 || block_z > 64 || grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 || grid_z > 65535 {
            log(&format!("{}: no launch of grid {grid_x} {grid_y} {grid_z}, block {block_x} {block_y} {block_z}, shared {shared}", kernel.name));
            return INVALID_VALUE;
        }
        let mut params = vec![0_u128; kernel.params.last().map_or(0, |(at, bytes)| at + bytes).div_ceil(16)];
        for (index, (at, bytes)) in kernel.params.iter().enumerate() {
            std::ptr::copy_nonoverlapping((*args.add(index)).cast::<u8>(), params.as_mut_ptr().cast::<u8>().add(*at), *bytes);
        }
        let (grid, block, shared) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared as usize);
        graphs::submit(stream as usize, Work::Kernel { kernel, grid, block, shared, params })
    }
    cuGetErrorName(status: c_int, to: *mut *const c_char) { put(to, name(status).as_ptr()) }
    cuGetErrorString(status: c_int, to: *mut *const c_char) { put(to, name(status).as_ptr()) }
}

fn name(status: c_int) -> &'static CStr {
    match status {
        SUCCESS => c"CUDA_SUCCESS",
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
        ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        NOT_SUPPORTED => c"CUDA_ERROR_NOT_SUPPORTED",
        graphs::ILLEGAL_STATE => c"CUDA_ERROR_ILLEGAL_STATE",
        CAPTURE_UNSUPPORTED => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        graphs::CAPTURE_INVALIDATED => c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        CAPTURE_ISOLATION => c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        CAPTURED_EVENT => c"CUDA_ERROR_CAPTURED_EVENT",
        graphs::CAPTURE_WRONG_THREAD => c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        _ => c"CUDA_ERROR_UNKNOWN",
    }
}

struct Event {
    at: Instant,
    /// The stream that was being captured when this event was recorded on it.
    captured_on: Option<usize>,
}

#[repr(C)]
#[derive(Clone)]
pub struct Copy2d {
    from_x: usize,
    from_y: usize,
    from_kind: c_uint,
    from_host: u64,
    from_device: u64,
    from_array: u64,
    from_pitch: usize,
    to_x: usize,
    to_y: usize,
    to_kind: c_uint,
    to_host: u64,
    to_device: u64,
    to_array: u64,
    to_pitch: usize,
    width: usize,
    height: usize,
}

pub unsafe fn copy(to: u64, from: u64, bytes: usize, on_card: [u64; 2]) -> Status {
    if BROKEN.load(Ordering::Relaxed) {
        return ILLEGAL_ADDRESS;
    }
    if let Some(at) = on_card.into_iter().find(|at| bytes > 0 && !is_allocated(*at, bytes)) {
        log(&format!("a copy of {bytes} bytes with memory that is nobody's, {at:#x}"));
        return INVALID_VALUE;
    }
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
    SUCCESS
}

pub unsafe fn copy_rows(plan: &Copy2d) -> Status {
    let from = if plan.from_kind == 1 { plan.from_host } else { plan.from_device };
    let to = if plan.to_kind == 1 { plan.to_host } else { plan.to_device };
    for row in 0..plan.height as u64 {
        let from = from + plan.from_x as u64 + (row + plan.from_y as u64) * plan.from_pitch as u64;
        let to = to + plan.to_x as u64 + (row + plan.to_y as u64) * plan.to_pitch as u64;
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, plan.width) };
    }
    SUCCESS
}

/// Runs a kernel, unless kernels are skipped, and logs it if asked to.
pub fn launch(launch: &Launch) -> Status {
    if BROKEN.load(Ordering::Relaxed) {
        return ILLEGAL_ADDRESS;
    }
    let begun = Instant::now();
    match if skips() { Ok(0) } else { run(launch) } {
        Ok(longest) => {
            if traces() {
                let Launch { kernel, grid, block, shared, .. } = launch;
                let took = begun.elapsed();
                log(&format!(
                    "{took:?} {} {grid:?} x {block:?}, {shared} bytes, {longest} instructions at most in a row",
                    kernel.name
                ));
            }
            SUCCESS
        }
        Err(why) => {
            log(&why);
            BROKEN.store(true, Ordering::Relaxed);
            ILLEGAL_ADDRESS
        }
    }
}

/// Runs every block, on all available threads; the largest number of instructions of a warp.
fn run(launch: &Launch) -> Result<u64, String> {
    let [x, y, _] = launch.grid;
    let all: u64 = launch.grid.iter().map(|side| u64::from(*side)).product();
    let (next, longest) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<Option<String>> = Mutex::new(None);
    let global_accesses = races::Launch::default();
    let work = || {
        loop {
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block >= all || failed.lock().is_ok_and(|failed| failed.is_some()) {
                return;
            }
            let at = [
                (block % u64::from(x)) as u32,
                (block / u64::from(x) % u64::from(y)) as u32,
                (block / (u64::from(x) * u64::from(y))) as u32,
            ];
            let done = Block::run(launch, at).and_then(|(ran, races)| {
                longest.fetch_max(ran, Ordering::Relaxed);
                global_accesses.add(block, races).map_err(|address| {
                    format!(
                        "a race: block {at:?} of {} is at {address:#x}, where another block is",
                        launch.kernel.name
                    )
                })
            });
            if let Err(why) = done {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(all as usize);
    if threads <= 1 {
        work();
    } else {
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    }
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(longest.into_inner()), Err)
}
