//! A CUDA driver that needs no GPU: `libcuda.so` whose functions read PTX and run it on the processor, so that what is compiled
//! for NVIDIA's GPUs is tested where there is none. It shows itself as one H100, with the instructions that burn's kernels use,
//! tensor cores among them, and stops a kernel that accesses memory that is not allocated or misaligned, has a barrier that
//! not all threads reach, or a race between threads. It says nothing about speed, and approximate instructions are exact.
//!
//! `LD_LIBRARY_PATH=FOLDER program --device cuda`, where FOLDER has `libcuda.so`; `scripts/test-all cuda` does it. Variables:
//! `CUDA_EMULATOR_CAPABILITY` 75 or 80 for older cards (90), `CUDA_EMULATOR_KEEP` a folder for the PTX of every kernel,
//! `CUDA_EMULATOR_MEMORY` bytes of the card (8 GiB), `CUDA_EMULATOR_SEED` draws the times of events, so that autotuning may choose any
//! kernel, `CUDA_EMULATOR_TRACE` logs every launch, that of a graph after those of its kernels, `CUDA_EMULATOR_SKIP` runs no
//! kernel, so that a step takes only as long as the host needs for it.
//!
//! `driver` has the functions, `graphs` records the work of a stream that is being captured, `parse` reads PTX and `decode`
//! its instructions, `arithmetic` computes their results, `machine` runs blocks of threads, `races` detects data races.

mod arithmetic;
mod decode;
mod driver;
mod graphs;
mod machine;
mod parse;
mod races;
mod value;
