//! torch's bilinear interpolation of float tensors without antialiasing. It is not separable: torch multiplies the
//! weights of both axes first and then sums four products.

use super::dispatch::{Job, run};
use super::planes::{Element, Planes};
use super::source::Source;
use super::windows::Windows;

/// Resizes one channel. `rows` and `columns` are windows of two pixels. `prepare` does arithmetic on the values of a
/// channel before they are summed.
pub(super) fn four_products<S: Element>(
    source: &Source<'_, S>,
    rows: &Windows<f32>,
    columns: &Windows<f32>,
    channel: usize,
    out: &mut Planes<f32>,
    prepare: &dyn Fn(usize, &mut [f32]),
) {
    run(FourProducts { source, rows, columns, channel, out, prepare });
}

struct FourProducts<'a, S> {
    source: &'a Source<'a, S>,
    rows: &'a Windows<f32>,
    columns: &'a Windows<f32>,
    channel: usize,
    out: &'a mut Planes<f32>,
    prepare: &'a dyn Fn(usize, &mut [f32]),
}

/// The two neighbours of every output in one source row.
#[derive(Default)]
struct Neighbours {
    row: Option<usize>,
    left: Vec<f32>,
    right: Vec<f32>,
}

impl<S: Element> Job for FourProducts<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let channels = self.source.channels();
        let windows: Vec<_> = (0..self.columns.len()).map(|output| self.columns.get(output)).collect();
        let at = |tap: usize| windows.iter().map(move |window| window.index(tap) * channels + self.channel);
        let (lefts, rights): (Vec<usize>, Vec<usize>) = (at(0).collect(), at(1).collect());
        let weight = |tap: usize| windows.iter().map(move |window| window.weights.get(tap).copied().unwrap_or(0.0));
        let (left_weights, right_weights): (Vec<f32>, Vec<f32>) = (weight(0).collect(), weight(1).collect());
        let (mut upper, mut lower) = (Neighbours::default(), Neighbours::default());
        for y in 0..self.rows.len() {
            let window = self.rows.get(y);
            let &[top, bottom] = window.weights else { continue };
            if lower.row == Some(window.index(0)) {
                std::mem::swap(&mut upper, &mut lower);
            }
            for (neighbours, tap) in [(&mut upper, 0), (&mut lower, 1)] {
                let row = window.index(tap);
                if neighbours.row != Some(row) {
                    let samples = self.source.row(row);
                    let value = |&index: &usize| samples.get(index).copied().unwrap_or_default().single();
                    neighbours.row = Some(row);
                    neighbours.left.clear();
                    neighbours.left.extend(lefts.iter().map(value));
                    neighbours.right.clear();
                    neighbours.right.extend(rights.iter().map(value));
                    (self.prepare)(self.channel, &mut neighbours.left);
                    (self.prepare)(self.channel, &mut neighbours.right);
                }
            }
            let out = self.out.row_mut(self.channel, y);
            let count = out.len();
            let (Some(a), Some(b)) = (upper.left.get(..count), upper.right.get(..count)) else { continue };
            let (Some(c), Some(d)) = (lower.left.get(..count), lower.right.get(..count)) else { continue };
            let (Some(left), Some(right)) = (left_weights.get(..count), right_weights.get(..count)) else { continue };
            for x in 0..count {
                let first = a[x].mul_add(top * left[x], b[x] * (top * right[x]));
                out[x] = d[x].mul_add(bottom * right[x], c[x].mul_add(bottom * left[x], first));
            }
        }
    }
}
