//! Row-major walks over index spaces that keep positions in several tensors.

/// A walk over an index space with positions in tensors of other strides. It starts at the first
/// index; an empty space must not be walked.
pub struct Walk<'a> {
    shape: &'a [u64],
    index: Vec<u64>,
    strides: Vec<Vec<i64>>,
    at: Vec<i64>,
}

impl<'a> Walk<'a> {
    /// A walk over `shape`; each entry of `tensors` is a first position and a stride per axis.
    pub fn new(shape: &'a [u64], tensors: Vec<(i64, Vec<i64>)>) -> Walk<'a> {
        let (at, strides) = tensors.into_iter().unzip();
        Walk { shape, index: vec![0; shape.len()], strides, at }
    }

    /// The index.
    pub fn index(&self) -> &[u64] {
        &self.index
    }

    /// The position in a tensor.
    pub fn at(&self, tensor: usize) -> i64 {
        self.at[tensor]
    }

    /// Goes to the next index; false after the last one.
    pub fn advance(&mut self) -> bool {
        for axis in (0..self.shape.len()).rev() {
            self.index[axis] += 1;
            let inside = self.index[axis] < self.shape[axis];
            let by = if inside { 1 } else { 1 - self.shape[axis] as i64 };
            for (at, strides) in self.at.iter_mut().zip(&self.strides) {
                *at += by * strides[axis];
            }
            if inside {
                return true;
            }
            self.index[axis] = 0;
        }
        false
    }
}

/// The positions of every index of `shape`, row-major, under the strides.
pub fn positions(shape: &[u64], strides: &[i64]) -> Vec<usize> {
    let mut out = Vec::new();
    if shape.contains(&0) {
        return out;
    }
    let mut walk = Walk::new(shape, vec![(0, strides.to_vec())]);
    loop {
        out.push(walk.at(0) as usize);
        if !walk.advance() {
            return out;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_follow_strides() {
        assert_eq!(positions(&[2, 3], &[1, 2]), [0, 2, 4, 1, 3, 5]);
        assert_eq!(positions(&[], &[]), [0]);
        assert_eq!(positions(&[2, 0], &[1, 1]), [0; 0]);
    }
}
