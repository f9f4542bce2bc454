//! The functions of libcuda that burn calls. Memory is the host's, and all is done before a call returns.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use crate::machine::{Block, Launch};
use crate::parse::{self, Kernel};
use crate::races;

type Status = c_int;
const SUCCESS: Status = 0;
const INVALID_VALUE: Status = 1;
const OUT_OF_MEMORY: Status = 2;
const INVALID_PTX: Status = 218;
const NOT_FOUND: Status = 500;
const ILLEGAL_ADDRESS: Status = 700;

/// Memory of the card, `CUDA_EMULATOR_MEMORY` in bytes.
fn capacity() -> usize {
    std::env::var("CUDA_EMULATOR_MEMORY").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(8 << 30)
}

/// What the card can do, `CUDA_EMULATOR_CAPABILITY` as 75 for 7.5: those before 8.0 round nothing to TF32, and CubeCL lays rows
/// of products apart there.
fn capability() -> c_int {
    std::env::var("CUDA_EMULATOR_CAPABILITY").ok().and_then(|digits| digits.parse().ok()).unwrap_or(90)
}

pub static ATOMICS: Mutex<()> = Mutex::new(());
static MEMORY: RwLock<BTreeMap<u64, usize>> = RwLock::new(BTreeMap::new());
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static BROKEN: AtomicBool = AtomicBool::new(false);

/// With CUDA_EMULATOR_SKIP no kernel runs and all memory is 0: what a step then takes is the host's share of it.
fn skips() -> bool {
    static SKIPS: OnceLock<bool> = OnceLock::new();
    *SKIPS.get_or_init(|| std::env::var_os("CUDA_EMULATOR_SKIP").is_some())
}

pub fn known(at: u64, bytes: usize) {
    MEMORY.write().unwrap_or_else(PoisonError::into_inner).insert(at, bytes);
}

pub fn is_known(at: u64, bytes: usize) -> bool {
    thread_local!(static LAST: std::cell::Cell<(u64, u64)> = const { std::cell::Cell::new((0, 0)) });
    let (start, end) = LAST.get();
    if at >= start && at + bytes as u64 <= end {
        return true;
    }
    let memory = MEMORY.read().unwrap_or_else(PoisonError::into_inner);
    let Some((start, length)) = memory.range(..=at).next_back() else { return false };
    let end = start + *length as u64;
    // What is freed in between is not noticed by who holds it as its last.
    LAST.set((*start, end));
    at + bytes as u64 <= end
}

/// With CUDA_EMULATOR_SEED milliseconds that are drawn: whoever takes the fastest of several kernels then takes any of them, and
/// others with another seed.
fn invented() -> Option<f32> {
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

fn say(text: &str) {
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
    cuCtxSynchronize();
    cuStreamDestroy_v2(stream: *mut c_void);
    cuStreamSynchronize(stream: *mut c_void);
    cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint);
    cuEventSynchronize(event: *mut c_void);
    cuEventQuery(event: *mut c_void);
    cuModuleUnload(module: *mut c_void);
    cuFuncSetAttribute(function: *mut c_void, attribute: c_int, value: c_int);
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
            _ => { say(&format!("an attribute is asked for that is not known: {attribute}")); 0 }
        })
    }
    cuDevicePrimaryCtxRetain(to: *mut *mut c_void, _device: c_int) { put(to, 8 as *mut c_void) }
    cuCtxGetCurrent(to: *mut *mut c_void) { put(to, 8 as *mut c_void) }
    cuCtxGetStreamPriorityRange(least: *mut c_int, most: *mut c_int) { put(least, 0); put(most, 0) }
    cuStreamCreate(to: *mut *mut c_void, _flags: c_uint) { put(to, 16 as *mut c_void) }
    cuStreamCreateWithPriority(to: *mut *mut c_void, _flags: c_uint, _priority: c_int) { put(to, 16 as *mut c_void) }
    cuEventCreate(to: *mut *mut c_void, _flags: c_uint) { put(to, Box::into_raw(Box::new(Instant::now())).cast()) }
    cuEventRecord(event: *mut c_void, _stream: *mut c_void) {
        if BROKEN.load(Ordering::Relaxed) { return ILLEGAL_ADDRESS; }
        put(event.cast(), Instant::now())
    }
    cuEventElapsedTime(to: *mut f32, from: *mut c_void, until: *mut c_void) {
        let (from, until): (*mut Instant, *mut Instant) = (from.cast(), until.cast());
        put(to, invented().unwrap_or_else(|| (*until - *from).as_secs_f32() * 1e3))
    }
    cuEventElapsedTime_v2(to: *mut f32, from: *mut c_void, until: *mut c_void) { cuEventElapsedTime(to, from, until) }
    cuEventDestroy_v2(event: *mut c_void) { drop(Box::from_raw(event.cast::<Instant>())); SUCCESS }
    cuMemAlloc_v2(to: *mut u64, bytes: usize) {
        if TAKEN.load(Ordering::Relaxed) + bytes > capacity() { return OUT_OF_MEMORY; }
        TAKEN.fetch_add(bytes, Ordering::Relaxed);
        let layout = std::alloc::Layout::from_size_align_unchecked(bytes, 512);
        let memory = std::alloc::alloc(layout);
        // Whoever reads what nobody wrote gets NaN.
        std::ptr::write_bytes(memory, if skips() { 0 } else { 0xff }, bytes);
        known(memory as u64, bytes);
        put(to, memory as u64)
    }
    cuMemAllocAsync(to: *mut u64, bytes: usize, _stream: *mut c_void) { cuMemAlloc_v2(to, bytes) }
    cuMemFree_v2(at: u64) {
        let Some(bytes) = MEMORY.write().unwrap_or_else(PoisonError::into_inner).remove(&at) else { return INVALID_VALUE };
        TAKEN.fetch_sub(bytes, Ordering::Relaxed);
        std::alloc::dealloc(at as *mut u8, std::alloc::Layout::from_size_align_unchecked(bytes, 512));
        SUCCESS
    }
    cuMemFreeAsync(at: u64, _stream: *mut c_void) { cuMemFree_v2(at) }
    cuMemAllocHost_v2(to: *mut *mut c_void, bytes: usize) {
        put(to, std::alloc::alloc(std::alloc::Layout::from_size_align_unchecked(bytes + 64, 64)).cast())
    }
    cuMemFreeHost(_at: *mut c_void) { SUCCESS }
    cuMemGetInfo_v2(free: *mut usize, all: *mut usize) {
        put(free, capacity() - TAKEN.load(Ordering::Relaxed));
        put(all, capacity())
    }
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, _stream: *mut c_void) { copy(to, from as u64, bytes, to) }
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, _stream: *mut c_void) { copy(to as u64, from, bytes, from) }
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, _stream: *mut c_void) {
        if !is_known(from, bytes) { return INVALID_VALUE; }
        copy(to, from, bytes, to)
    }
    cuMemcpy2DAsync_v2(plan: *const Copy2d, _stream: *mut c_void) {
        let plan = &*plan;
        let from = if plan.from_kind == 1 { plan.from_host } else { plan.from_device };
        let to = if plan.to_kind == 1 { plan.to_host } else { plan.to_device };
        for row in 0..plan.height as u64 {
            std::ptr::copy(
                (from + plan.from_x as u64 + (row + plan.from_y as u64) * plan.from_pitch as u64) as *const u8,
                (to + plan.to_x as u64 + (row + plan.to_y as u64) * plan.to_pitch as u64) as *mut u8,
                plan.width,
            );
        }
        SUCCESS
    }
    cuModuleLoadData(to: *mut *mut c_void, image: *const c_void) {
        let text = CStr::from_ptr(image.cast()).to_string_lossy();
        if let Some(folder) = std::env::var_os("CUDA_EMULATOR_KEEP") {
            let name = format!("{:016x}.ptx", text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)));
            let _ = std::fs::write(std::path::Path::new(&folder).join(name), text.as_bytes());
        }
        match parse::module(&text) {
            Ok(kernels) => put(to, Box::into_raw(Box::new(kernels)).cast()),
            Err(why) => { say(&format!("this PTX cannot be read: {why}")); INVALID_PTX }
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
        shared: c_uint, _stream: *mut c_void, args: *mut *mut c_void, _extra: *mut *mut c_void
    ) {
        if BROKEN.load(Ordering::Relaxed) { return ILLEGAL_ADDRESS; }
        let kernel = &*function.cast::<Kernel>();
        if shared > 232_448 || block_x * block_y * block_z > 1024 || block_z > 64 || grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 || grid_z > 65535 {
            say(&format!("{}: no launch of grid {grid_x} {grid_y} {grid_z}, block {block_x} {block_y} {block_z}, shared {shared}", kernel.name));
            return INVALID_VALUE;
        }
        let mut params = vec![0_u128; kernel.params.last().map_or(0, |(at, bytes)| at + bytes).div_ceil(16)];
        for (index, (at, bytes)) in kernel.params.iter().enumerate() {
            std::ptr::copy_nonoverlapping((*args.add(index)).cast::<u8>(), params.as_mut_ptr().cast::<u8>().add(*at), *bytes);
        }
        let params = std::slice::from_raw_parts(params.as_ptr().cast::<u8>(), params.len() * 16);
        let launch = Launch { kernel, grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared: shared as usize, params };
        let begun = Instant::now();
        match if skips() { Ok(0) } else { run(&launch) } {
            Ok(longest) => {
                if std::env::var_os("CUDA_EMULATOR_TRACE").is_some() {
                    let (grid, block, took) = (launch.grid, launch.block, begun.elapsed());
                    say(&format!("{took:?} {} {grid:?} x {block:?}, {shared} bytes, {longest} instructions at most in a row", kernel.name));
                }
                SUCCESS
            }
            Err(why) => { say(&why); BROKEN.store(true, Ordering::Relaxed); ILLEGAL_ADDRESS }
        }
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
        _ => c"CUDA_ERROR_UNKNOWN",
    }
}

#[repr(C)]
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

unsafe fn copy(to: u64, from: u64, bytes: usize, device: u64) -> Status {
    if BROKEN.load(Ordering::Relaxed) {
        return ILLEGAL_ADDRESS;
    }
    if bytes > 0 && !is_known(device, bytes) {
        say(&format!("a copy of {bytes} bytes with memory that is nobody's, {device:#x}"));
        return INVALID_VALUE;
    }
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
    SUCCESS
}

/// Every block, on as many threads as there are; how many instructions the longest of all warps took.
fn run(launch: &Launch) -> Result<u64, String> {
    let [x, y, _] = launch.grid;
    let all: u64 = launch.grid.iter().map(|side| u64::from(*side)).product();
    let (next, longest) = (AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<Option<String>> = Mutex::new(None);
    let everyones = races::Launch::default();
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
                everyones.add(block, races).map_err(|address| {
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
