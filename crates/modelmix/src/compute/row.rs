//! One new row against all rows held: a pass at the speed of memory. Squared distances come from differences, so that no
//! centre is needed.

use super::dispatch::Job;
use super::lanes::{Arithmetic, Map, fma, is_centred};
use super::micro::Micro;
use crate::features::Rows;
use crate::kernel::Kernel;

/// Rows that share each load of the new one.
const GROUP: usize = 4;
/// Partial sums of a row.
const LANES: usize = 16;
/// Rows whose geometry is collected before the kernel is taken of all of them.
const BATCH: usize = 64;

/// Adds `weight` · k(x, row) to `out`; says no, and adds nothing, where squares would leave single precision.
pub(super) struct RowPass<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) weight: f64,
    pub(super) x: &'a [f32],
    pub(super) held: Rows<'a>,
    pub(super) out: &'a mut [f64],
}

impl Job for RowPass<'_> {
    type Output = bool;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> bool {
        let norm = squared_norm(self.x, None).sqrt();
        let is_ordinary = norm == 0.0 || (1e-15..1e15).contains(&norm);
        if is_ordinary {
            pass::<M>(self.kernel, self.weight, self.x, self.held, self.out);
        }
        is_ordinary
    }
}

/// ‖x − centre‖² of every row, in double precision.
pub(super) struct SquaredNorms<'a> {
    pub(super) rows: Rows<'a>,
    pub(super) centre: Option<&'a [f32]>,
}

impl Job for SquaredNorms<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> Vec<f64> {
        self.rows.iter().map(|row| squared_norm(row, self.centre)).collect()
    }
}

/// Σ of every column, in double precision.
pub(super) struct ColumnSums<'a> {
    pub(super) rows: Rows<'a>,
}

impl Job for ColumnSums<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    unsafe fn run<M: Micro>(self) -> Vec<f64> {
        let mut sums = vec![0.0f64; self.rows.width()];
        for row in self.rows.iter() {
            sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        sums
    }
}

/// Σ(x − centre)² in double precision.
#[inline(always)]
fn squared_norm(row: &[f32], centre: Option<&[f32]>) -> f64 {
    let mut lanes = [0.0f64; 8];
    let mut add = |values: [f32; 8]| {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane += f64::from(value) * f64::from(value);
        }
    };
    let (chunks, rest) = row.as_chunks::<8>();
    let mut last = [0.0; 8];
    match centre {
        None => {
            chunks.iter().for_each(|&chunk| add(chunk));
            last[..rest.len()].copy_from_slice(rest);
        }
        Some(centre) => {
            let (centres, centre) = centre.as_chunks::<8>();
            for (chunk, centre) in chunks.iter().zip(centres) {
                add(std::array::from_fn(|lane| chunk[lane] - centre[lane]));
            }
            last.iter_mut().zip(rest.iter().zip(centre)).for_each(|(last, (value, centre))| *last = value - centre);
        }
    }
    add(last);
    lanes.iter().sum()
}

#[inline(always)]
fn pass<A: Arithmetic>(kernel: &Kernel, weight: f64, x: &[f32], held: Rows<'_>, out: &mut [f64]) {
    let distance = is_centred(kernel);
    let norm = squared_norm(x, None);
    let own = Map::term(kernel, norm);
    for (start, out) in (0..held.len()).step_by(BATCH).zip(out.chunks_mut(BATCH)) {
        let rows = held.slice(start, start + out.len());
        let mut geometry = [0.0f32; BATCH];
        let mut terms = [0.0f32; BATCH];
        let mut largest = norm;
        for (group, values) in (0..rows.len()).step_by(GROUP).zip(geometry.chunks_exact_mut(GROUP)) {
            let rows = rows.slice(group, (group + GROUP).min(rows.len()));
            values.copy_from_slice(&if distance { inner::<A, true>(rows, x) } else { inner::<A, false>(rows, x) });
        }
        if !distance {
            for (term, row) in terms.iter_mut().zip(rows.iter()) {
                let squared = squared_norm(row, None);
                largest = largest.max(squared);
                *term = Map::term(kernel, squared);
            }
        }
        let (map, unit) = Map::new(kernel, distance, largest);
        map.apply::<A>(&mut geometry, own, &terms);
        for (out, &value) in out.iter_mut().zip(&geometry) {
            *out += weight * unit * f64::from(value);
        }
    }
}

/// The geometry of up to [`GROUP`] rows against one; a short group reads its last row again.
#[inline(always)]
fn inner<A: Arithmetic, const DISTANCE: bool>(group: Rows<'_>, x: &[f32]) -> [f32; GROUP] {
    let step = |sum: f32, a: f32, b: f32| {
        let (left, right) = if DISTANCE { (a - b, a - b) } else { (a, b) };
        fma::<A>(left, right, sum)
    };
    let rows: [&[f32]; GROUP] = std::array::from_fn(|index| group.row(index.min(group.len() - 1)));
    let mut sums = [[0.0f32; LANES]; GROUP];
    let whole = x.len() / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        let other: &[f32; LANES] = x[start..][..LANES].try_into().expect("a whole chunk");
        for (sums, row) in sums.iter_mut().zip(rows) {
            let chunk: &[f32; LANES] = row[start..][..LANES].try_into().expect("a whole chunk");
            for lane in 0..LANES {
                sums[lane] = step(sums[lane], chunk[lane], other[lane]);
            }
        }
    }
    std::array::from_fn(|index| {
        let mut lanes = sums[index];
        for (lane, column) in (whole..x.len()).enumerate() {
            lanes[lane] = step(lanes[lane], rows[index][column], x[column]);
        }
        // Pairwise, so that the error does not grow with the number of lanes.
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                lanes[lane] += lanes[lane + width];
            }
            width /= 2;
        }
        lanes[0]
    })
}
