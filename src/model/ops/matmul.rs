//! Products of matrices in all digits of float32, on every device.
//!
//! On NVIDIA's GPUs CUDA's kernels for float32 round their factors to TF32, ten bits, where burn finds a tensor core, and nothing
//! switches that off. Tokens would be 1e-3 off, and the repeated squares of S4 8e-3. There the kernels are chosen here,
//! among those that multiply in float32; elsewhere, and in halves, burn chooses.

use burn::tensor::Tensor;

/// [`Tensor::matmul`] in the precision that its factors have.
pub trait PreciseMatmul {
    /// `self other`, of the last two axes; the axes before them are those of a batch, where one of length 1 is repeated.
    fn precise_matmul(self, other: Self) -> Self;
}

impl<const D: usize> PreciseMatmul for Tensor<D> {
    #[expect(clippy::disallowed_methods, reason = "for factors that no kernel rounds")]
    fn precise_matmul(self, other: Self) -> Self {
        #[cfg(feature = "cuda")]
        if cuda::rounds(&self) {
            let factors = [self.into_dispatch(), other.into_dispatch()];
            return super::custom_op::apply::<burn::backend::Cube, _, 2, D>(cuda::Product, factors);
        }
        self.matmul(other)
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use burn::backend::cubecl::Device as CubeDevice;
    use burn::backend::{TensorMetadata, ops::FloatTensorOps};
    use burn::tensor::{DType, Tensor};
    use burn_cubecl::cubecl::prelude::Scalar;
    use burn_cubecl::cubecl::tf32;
    use burn_cubecl::cubecl::tune::{LocalTuner, Tunable, TunableSet, local_tuner};
    use burn_cubecl::kernel::matmul::utils::init_matmul_output;
    use burn_cubecl::{CubeBackend, CubeTuneId, tensor::CubeTensor};
    use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
    use cubek::matmul::launch::launch_ref;
    use cubek::matmul::multi_level::Strategy;
    use cubek::matmul::multi_level::routines::TileSizeSelection::{MaxTileSize, MinTileSize};
    use cubek::matmul::multi_level::routines::batch::double_unit::DoubleUnitSelectionArgs;
    use cubek::matmul::multi_level::routines::batch::simple_unit::SimpleUnitSelectionArgs;
    use cubek::matmul::routine::BlueprintStrategy::Inferred;
    use cubek::matmul::tune_key::MatmulAutotuneKey;
    use cubek::std::InputBinding;

    use crate::model::ops::custom_op::CustomOp;
    use crate::model::ops::gpu::gpu;

    /// Whether kernels of this tensor's device would round it.
    pub(super) fn rounds<const D: usize>(factor: &Tensor<D>) -> bool {
        let has_cores = |gpu: CubeDevice| gpu.client().properties().supports_type(tf32::elem_type_native());
        factor.dtype() == DType::F32 && gpu(factor).is_some_and(has_cores)
    }

    /// The product of two matrices.
    pub(super) struct Product;

    impl CustomOp<CubeBackend, 2> for Product {
        type Saved = [CubeTensor; 2];

        fn forward(self, factors: [CubeTensor; 2], _: bool) -> (CubeTensor, Self::Saved) {
            let [left, right] = factors.clone();
            (multiply(left, right), factors)
        }

        fn vjp([left, right]: &Self::Saved, by_product: CubeTensor) -> [Option<CubeTensor>; 2] {
            let by_left = multiply(by_product.clone(), transposed(right));
            let by_right = multiply(transposed(left), by_product);
            [summed(by_left, left), summed(by_right, right)].map(Some)
        }
    }

    fn transposed(matrix: &CubeTensor) -> CubeTensor {
        let axes = matrix.shape().num_dims();
        CubeBackend::float_swap_dims(matrix.clone(), axes - 2, axes - 1)
    }

    /// The gradient of a factor, of which axes of length 1 were repeated.
    fn summed(gradient: CubeTensor, factor: &CubeTensor) -> CubeTensor {
        let repeated =
            |gradient: &CubeTensor, axis: usize| factor.shape()[axis] == 1 && gradient.shape()[axis] > 1;
        (0..factor.shape().num_dims()).fold(gradient, |gradient, axis| match repeated(&gradient, axis) {
            true => CubeBackend::float_sum_dim(gradient, axis),
            false => gradient,
        })
    }

    /// Both factors, and where their product goes.
    type Operands = (CubeTensor, CubeTensor, CubeTensor);

    /// By the fastest of those kernels that ask for no tensor core, as found once for shapes of a kind.
    fn multiply(left: CubeTensor, right: CubeTensor) -> CubeTensor {
        static TUNER: LocalTuner<MatmulAutotuneKey, CubeTuneId> = local_tuner!();
        let product = init_matmul_output(&left, &right, DType::F32);
        let client = product.client.clone();
        let id = CubeTuneId::new(&client, &product.device);
        let kernels = TUNER.init(&id, || {
            let mut strategies = vec![
                Strategy::Naive, // the first, which takes all shapes
                Strategy::SimpleVecMat(Inferred(().into())),
                Strategy::DoubleVecMat(Inferred(().into())),
                Strategy::GemvUnitPerpendicular(Inferred(Default::default())),
                Strategy::Gemm(Inferred(Default::default())),
            ];
            for tile_size in [MaxTileSize, MinTileSize] {
                strategies.push(Strategy::SimpleUnit(Inferred(SimpleUnitSelectionArgs { tile_size })));
                strategies.push(Strategy::DoubleUnit(Inferred(DoubleUnitSelectionArgs { tile_size })));
            }
            let none = TunableSet::new(key, |_: &MatmulAutotuneKey, operands: &Operands| operands.clone());
            strategies.into_iter().fold(none, |set, strategy| {
                let name = strategy.to_string();
                set.with(Tunable::new(&name, move |operands| launch(&strategy, operands)))
            })
        });
        TUNER.execute(&id, &client, kernels, (left, right, product.clone()));
        product
    }

    fn key((left, right, product): &Operands) -> MatmulAutotuneKey {
        let float = f32::elem_type_native().into();
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
        let float = f32::elem_type_native().into();
        let mut numbers =
            MatmulElems::from_globals(&MatmulGlobalElems { lhs: float, rhs: float, out: float });
        let [left, right] = [left, right].map(|factor| InputBinding::new(factor.binding(), float));
        let client = product.client.clone();
        launch_ref(&strategy.clone().into(), &client, left, right, product.binding(), &mut numbers)
            .map_err(|error| format!("{error:?}"))
    }
}
