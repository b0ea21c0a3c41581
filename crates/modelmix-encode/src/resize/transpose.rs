//! Transposes 16 × 16 tiles. The loops have the shape of vector instructions that interleave two registers, which
//! compilers recognise on every processor.

/// Swaps the rows and columns of a tile.
///
/// Interleaving the elements of rows i and i + 8 into rows 2i and 2i + 1 moves the uppermost bit of the row number to
/// the lowest place of the column number, and that column's uppermost bit to the row. Four times make a transposition.
#[inline(always)]
pub(super) fn transpose<T: Copy + Default>(tile: &[[T; 16]; 16]) -> [[T; 16]; 16] {
    interleave(&interleave(&interleave(&interleave(tile))))
}

#[inline(always)]
fn interleave<T: Copy + Default>(rows: &[[T; 16]; 16]) -> [[T; 16]; 16] {
    let mut out = [[T::default(); 16]; 16];
    for i in 0..8 {
        for j in 0..8 {
            out[2 * i][2 * j] = rows[i][j];
            out[2 * i][2 * j + 1] = rows[i + 8][j];
            out[2 * i + 1][2 * j] = rows[i][j + 8];
            out[2 * i + 1][2 * j + 1] = rows[i + 8][j + 8];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn transposes() {
        let tile: [[u8; 16]; 16] = std::array::from_fn(|row| std::array::from_fn(|column| (16 * row + column) as u8));
        let transposed = super::transpose(&tile);
        for row in 0..16 {
            for column in 0..16 {
                assert_eq!(transposed[row][column], tile[column][row]);
            }
        }
    }
}
