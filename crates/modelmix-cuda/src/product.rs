//! Products of matrices in double precision on the device: by cuBLAS if it is installed, otherwise by a kernel of this crate.

use modelmix::Result;

use crate::device::{GemmSide, Grid, Queue};
use crate::modules::Module;

/// A column-major matrix at an address, as one side of a product.
pub(crate) type Side = GemmSide;

/// Sides of tiles of `product_double`.
const TILE: usize = 64;

/// C = A·B, or C + A·B with `add`, of m × k and k × n matrices. `c` is an address and the distance between columns.
///
/// # Safety
/// The addresses must be those of matrices of these sizes.
pub(crate) unsafe fn product(
    queue: &Queue<'_>,
    (m, n, k): (usize, usize, usize),
    a: Side,
    b: Side,
    add: bool,
    c: (u64, usize),
) -> Result<()> {
    if m == 0 || n == 0 {
        return Ok(());
    }
    // SAFETY: promised by the caller.
    unsafe {
        if queue.dgemm((m, n, k), a, b, add, c)? {
            return Ok(());
        }
        // The distances between rows of A and between its columns; between columns of B and between its rows.
        let (a_row, a_depth) = if a.transposed { (a.stride, 1) } else { (1, a.stride) };
        let (b_row, b_depth) = if b.transposed { (1, b.stride) } else { (b.stride, 1) };
        let grid = Grid::two(m.div_ceil(TILE), n.div_ceil(TILE), 128);
        queue.launch(
            Module::Double,
            "product_double",
            grid,
            &[
                &a.at,
                &(a_row as i64),
                &(a_depth as i64),
                &b.at,
                &(b_row as i64),
                &(b_depth as i64),
                &(m as i32),
                &(n as i32),
                &(k as i32),
                &i32::from(add),
                &c.0,
                &(c.1 as i64),
            ],
        )
    }
}
