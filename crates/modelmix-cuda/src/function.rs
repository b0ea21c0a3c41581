//! Kernels of the library as arguments of the GPU's functions.

use modelmix::Kernel;
use modelmix::objective::Geometry;

use crate::modules::Map;

/// `Function` of `function.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Function {
    a: f64,
    b: f64,
    kind: i32,
    power: i32,
}

const GAUSSIAN: i32 = 0;
const LAPLACIAN: i32 = 1;
const POLYNOMIAL: i32 = 2;
const COSINE: i32 = 3;
const PLAIN: i32 = 4;

impl Function {
    /// The kernel; `None` if it is one that this crate does not know.
    pub(crate) fn of(kernel: &Kernel) -> Option<Self> {
        Some(match *kernel {
            Kernel::Gaussian { bandwidth } => {
                Self { a: 0.5 / (bandwidth * bandwidth), b: 0.0, kind: GAUSSIAN, power: 1 }
            }
            Kernel::Laplacian { bandwidth } => Self { a: 1.0 / bandwidth, b: 0.0, kind: LAPLACIAN, power: 1 },
            Kernel::Polynomial { scale, offset, degree } => {
                Self { a: scale, b: offset, kind: POLYNOMIAL, power: degree as i32 }
            }
            Kernel::Cosine { power } => Self { a: 1.0, b: 0.0, kind: COSINE, power: power as i32 },
            _ => return None,
        })
    }

    /// The squared distance itself.
    pub(crate) const DISTANCE: Self = Self { a: 1.0, b: 0.0, kind: PLAIN, power: 1 };
    /// The product itself.
    pub(crate) const PRODUCT: Self = Self { a: 1.0, b: 0.0, kind: POLYNOMIAL, power: 1 };

    pub(crate) fn is_product(&self) -> bool {
        matches!(self.kind, POLYNOMIAL | COSINE)
    }

    pub(crate) fn is_cosine(&self) -> bool {
        self.kind == COSINE
    }

    /// The function of `double.cu` that sums it over tiles.
    pub(crate) fn of_tiles(&self) -> &'static str {
        match self.kind {
            GAUSSIAN => "tile_gaussian",
            LAPLACIAN => "tile_laplacian",
            POLYNOMIAL => "tile_polynomial",
            COSINE => "tile_cosine",
            _ => "tile_plain",
        }
    }

    /// Whether single precision suffices for its distances: not for distances that are compared.
    pub(crate) fn is_smooth(&self) -> bool {
        matches!(self.kind, GAUSSIAN | LAPLACIAN)
    }
}

/// A kernel for the fused kernels: `rate` and `offset` as in `prepare.cu`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FusedKernel {
    pub(crate) map: Map,
    pub(crate) rate: f64,
    pub(crate) offset: f64,
    /// Whether rows are divided by their norms first.
    pub(crate) normalised: bool,
}

impl FusedKernel {
    /// `None` for kernels that are not a function of products and terms of rows: the Laplacian.
    pub(crate) fn of(kernel: &Kernel) -> Option<Self> {
        let normalised = kernel.geometry() == Geometry::Cosine;
        Some(match *kernel {
            Kernel::Gaussian { bandwidth } => {
                let rate = std::f64::consts::LOG2_E * 0.5 / (bandwidth * bandwidth);
                Self { map: Map::Gaussian, rate, offset: 0.0, normalised }
            }
            Kernel::Polynomial { scale, offset, degree } => {
                Self { map: Map::Power { degree }, rate: scale, offset, normalised }
            }
            Kernel::Cosine { power } => Self { map: Map::Power { degree: power }, rate: 1.0, offset: 0.0, normalised },
            _ => return None,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_a_function() {
        let kernels = [
            Kernel::Gaussian { bandwidth: 2.0 },
            Kernel::Laplacian { bandwidth: 2.0 },
            Kernel::Polynomial { scale: 0.5, offset: 1.0, degree: 3 },
            Kernel::Cosine { power: 2 },
        ];
        let functions = kernels.map(|kernel| Function::of(&kernel).unwrap());
        assert_eq!(functions.map(|function| function.is_product()), [false, false, true, true]);
        assert_eq!(
            functions.map(|function| function.of_tiles()),
            ["tile_gaussian", "tile_laplacian", "tile_polynomial", "tile_cosine"]
        );
        assert_eq!((functions[0].a, functions[1].a, functions[2].a), (0.125, 0.5, 0.5));
        assert!(FusedKernel::of(&kernels[1]).is_none());
        assert_eq!(FusedKernel::of(&kernels[3]).map(|fused| fused.normalised), Some(true));
    }
}
