//! Products in float32 where burn's kernels round their factors: the fastest of [`tiled`] and of those kernels that ask for no tensor
//! core.

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

/// Whether burn's kernels would round this factor.
pub(super) fn rounds(factor: &CubeTensor) -> bool {
    factor.client.properties().supports_type(tf32::elem_type_native())
}

/// Both factors, and where their product goes.
type Operands = (CubeTensor, CubeTensor, CubeTensor);

/// `left right`, without gaps, by what was found once to be the fastest for shapes of this kind.
pub(super) fn multiply(left: CubeTensor, right: CubeTensor) -> CubeTensor {
    // Shapes of one kind share what was found for the first of them, which has to take them all: those that `tiled` does not take
    // are a kind of their own.
    static TUNERS: [LocalTuner<MatmulAutotuneKey, CubeTuneId>; 2] =
        [local_tuner!("not-tiled"), local_tuner!("tiled")];
    // What burn makes room by has rows with gaps, which most of what reads a product would have to copy first.
    let product = empty_of(&left, shape_of(&left, &right), DType::F32);
    let client = product.client.clone();
    let id = CubeTuneId::new(&client, &product.device);
    let takes_tiled = tiled::takes(&left, &right);
    let tuner = &TUNERS[usize::from(takes_tiled)];
    let kernels = tuner.init(&id, move || {
        let mut strategies = vec![
            Strategy::Naive, // the first, which takes all shapes
            Strategy::Gemm(Inferred(Default::default())),
        ];
        for tile_size in [MaxTileSize, MinTileSize] {
            strategies.push(Strategy::SimpleUnit(Inferred(SimpleUnitSelectionArgs { tile_size })));
            strategies.push(Strategy::DoubleUnit(Inferred(DoubleUnitSelectionArgs { tile_size })));
        }
        let none = TunableSet::new(key, |_: &MatmulAutotuneKey, operands: &Operands| operands.clone());
        let theirs = strategies.into_iter().fold(none, |set, strategy| {
            let name = strategy.to_string();
            set.with(Tunable::new(&name, move |operands| launch(&strategy, operands)))
        });
        if takes_tiled { theirs.with(Tunable::new("Tiled", launch_tiled)) } else { theirs }
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
    let mut numbers = MatmulElems::from_globals(&MatmulGlobalElems { lhs: float, rhs: float, out: float });
    let [left, right] = [left, right].map(|factor| InputBinding::new(factor.binding(), float));
    let client = product.client.clone();
    launch_ref(&strategy.clone().into(), &client, left, right, product.binding(), &mut numbers)
        .map_err(|error| format!("{error:?}"))
}

fn launch_tiled((left, right, product): Operands) -> Result<(), String> {
    tiled::multiply(&left, &right, &product).ok_or_else(|| "factors that it does not take".to_owned())
}
