//! Products in float32 where burn's default kernels would round their factors: autotunes over [`tiled`] and those of burn's kernels
//! that use no tensor core.

use burn::tensor::DType;
use burn_cubecl::cubecl::prelude::Scalar;
use burn_cubecl::cubecl::tf32;
use burn_cubecl::cubecl::tune::{LocalTuner, Tunable, TunableSet, local_tuner};
use burn_cubecl::{CubeTuneId, tensor::CubeTensor};
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::launch_ref;
use cubek::matmul::multi_level::Strategy;
use cubek::matmul::multi_level::routines::TileSizeSelection::{MaxTileSize, MinTileSize};
use cubek::matmul::multi_level::routines::batch::double_unit::DoubleUnitSelectionArgs;
use cubek::matmul::multi_level::routines::batch::simple_unit::SimpleUnitSelectionArgs;
use cubek::matmul::routine::BlueprintStrategy::Inferred;
use cubek::matmul::tune_key::MatmulAutotuneKey;
use cubek::std::InputBinding;

use super::{shape_of, tiled};
use crate::model::ops::gpu::empty_of;

/// Whether burn's kernels would round this factor: whether its device multiplies in TF32.
pub(super) fn rounds(factor: &CubeTensor) -> bool {
    factor.client.properties().supports_type(tf32::elem_type_native())
}

/// Both factors, and the buffer for their product.
type Operands = (CubeTensor, CubeTensor, CubeTensor);

/// `left right`, contiguous, by the kernel that autotuning found to be the fastest for shapes of this kind.
pub(super) fn multiply(left: CubeTensor, right: CubeTensor) -> CubeTensor {
    // All shapes of one key use the kernel that was chosen for the first of them, so it has to support them all: shapes that
    // `tiled` does not support have a tuner of their own.
    static TUNERS: [LocalTuner<MatmulAutotuneKey, CubeTuneId>; 2] =
        [local_tuner!("not-tiled"), local_tuner!("tiled")];
    // Burn's own allocation pads the rows, and most readers of a product would have to copy it first.
    let product = empty_of(&left, shape_of(&left, &right), DType::F32);
    let client = product.client.clone();
    let id = CubeTuneId::new(&client, &product.device);
    let is_tiled = tiled::supports(&left, &right);
    let tuner = &TUNERS[usize::from(is_tiled)];
    let kernels = tuner.init(&id, move || {
        let mut strategies = vec![
            Strategy::Naive, // first, as it supports all shapes
            Strategy::Gemm(Inferred(Default::default())),
        ];
        for tile_size in [MaxTileSize, MinTileSize] {
            strategies.push(Strategy::SimpleUnit(Inferred(SimpleUnitSelectionArgs { tile_size })));
            strategies.push(Strategy::DoubleUnit(Inferred(DoubleUnitSelectionArgs { tile_size })));
        }
        let empty_set = TunableSet::new(key, |_: &MatmulAutotuneKey, operands: &Operands| operands.clone());
        let burn_kernels = strategies.into_iter().fold(empty_set, |set, strategy| {
            let name = strategy.to_string();
            set.with(Tunable::new(&name, move |operands| launch(&strategy, operands)))
        });
        if is_tiled { burn_kernels.with(Tunable::new("Tiled", launch_tiled)) } else { burn_kernels }
    });
    tuner.execute(&id, &client, kernels, (left, right, product.clone()));
    product
}

fn key((left, right, product): &Operands) -> MatmulAutotuneKey {
    let float = f32::elem_type_native();
    let [a, b] = [&left.meta, &right.meta];
    MatmulAutotuneKey::generate(
        &product.client,
        a.shape(),
        b.shape(),
        a.strides(),
        b.strides(),
        a.tiling,
        b.tiling,
        float,
        float,
        float,
        None,
        None,
    )
}

fn launch(strategy: &Strategy, (left, right, product): Operands) -> Result<(), String> {
    let float = f32::elem_type_native();
    let mut elems = MatmulElems::from_globals(&MatmulGlobalElems { lhs: float, rhs: float, out: float });
    let [left, right] = [left, right].map(|factor| InputBinding::new(factor.binding(), float));
    let client = product.client.clone();
    launch_ref(&strategy.clone().into(), &client, left, right, product.binding(), &mut elems)
        .map_err(|error| format!("{error:?}"))
}

fn launch_tiled((left, right, product): Operands) -> Result<(), String> {
    tiled::multiply(&left, &right, &product).ok_or_else(|| "factors that it does not support".to_owned())
}
