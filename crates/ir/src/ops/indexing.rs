//! What `gather` and `scatter` have in common: windows of a tensor (the operand), placed by start
//! indices, laid out in another tensor (gather's result, scatter's updates).

use crate::attribute::{Attributes, axes};
use crate::types::TensorType;

/// How the axes of operand, indices and windows correspond.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    /// Axes of the windows' tensor that run inside a window, ascending; the others run over the
    /// windows.
    pub inside: Vec<usize>,
    /// Operand axes in which a window is one element and that `inside` leaves out, ascending.
    pub inserted: Vec<usize>,
    /// Operand axes that run along with an axis of the indices, ascending.
    pub operand_batch: Vec<usize>,
    /// Those axes of the indices.
    pub indices_batch: Vec<usize>,
    /// The operand axis of each component of a start index.
    pub start: Vec<usize>,
    /// The indices' axis that runs over the components; their rank if there is one only.
    pub vector: usize,
}

/// StableHLO's names of the fields of [`Windows`], for one of the two ops.
pub struct Names {
    /// The op.
    pub op: &'static str,
    /// Of [`Windows::inside`].
    pub inside: &'static str,
    /// Of [`Windows::inserted`].
    pub inserted: &'static str,
    /// Of [`Windows::operand_batch`].
    pub operand_batch: &'static str,
    /// Of [`Windows::indices_batch`].
    pub indices_batch: &'static str,
    /// Of [`Windows::start`].
    pub start: &'static str,
}

impl Windows {
    /// From the fields of the op's dimension numbers.
    pub fn from_fields(
        names: &Names,
        fields: &mut Attributes,
        operand: &TensorType,
        indices: &TensorType,
    ) -> Result<Windows, String> {
        let op = names.op;
        let vector = fields.take_int("index_vector_dim")?.unwrap_or(0);
        let vector = usize::try_from(vector).ok().filter(|&v| v <= indices.rank());
        let vector = vector.ok_or_else(|| {
            format!("{op}: index_vector_dim is out of range for the indices {indices}")
        })?;
        let mut read = |name: &str, rank: Option<usize>| {
            let values = fields.take_ints(name)?.unwrap_or_default();
            let several = values.len();
            axes(&values, rank.unwrap_or(indices.rank() + several), &format!("{op}: {name}"))
        };
        Ok(Windows {
            inside: read(names.inside, None)?,
            inserted: read(names.inserted, Some(operand.rank()))?,
            operand_batch: read(names.operand_batch, Some(operand.rank()))?,
            indices_batch: read(names.indices_batch, Some(indices.rank()))?,
            start: read(names.start, Some(operand.rank()))?,
            vector,
        })
    }

    /// The fields, as [`Windows::from_fields`] reads them.
    pub fn fields(&self, names: &Names) -> Attributes {
        let ints = |axes: &[usize]| axes.iter().map(|&a| a as i64).collect::<Vec<i64>>();
        Attributes::new()
            .with_ints(names.inside, &ints(&self.inside))
            .with_ints(names.inserted, &ints(&self.inserted))
            .with_ints(names.operand_batch, &ints(&self.operand_batch))
            .with_ints(names.indices_batch, &ints(&self.indices_batch))
            .with_ints(names.start, &ints(&self.start))
            .with_int("index_vector_dim", self.vector as i64)
    }

    /// An error unless the axes fit together and the types.
    pub fn check(
        &self,
        names: &Names,
        operand: &TensorType,
        indices: &TensorType,
    ) -> Result<(), String> {
        let op = names.op;
        if !indices.dtype.is_int() {
            return Err(format!("{op}: the indices are {indices}, expected integers"));
        }
        let components = indices.shape.get(self.vector).copied().unwrap_or(1);
        if self.vector > indices.rank() || components != self.start.len() as u64 {
            return Err(format!(
                "{op}: {} names {} axes, a start index has {components} components",
                names.start,
                self.start.len()
            ));
        }
        let total = self.inside.len() + self.inserted.len() + self.operand_batch.len();
        if total != operand.rank() {
            return Err(format!(
                "{op}: {}, {} and {} name {total} axes, the operand {operand} has {}",
                names.inside,
                names.inserted,
                names.operand_batch,
                operand.rank()
            ));
        }
        let rank = self.batch_rank(indices.rank()) + self.inside.len();
        unique(op, names.inside, &[&self.inside], rank)?;
        let inserted = format!("{} and {}", names.inserted, names.operand_batch);
        unique(op, &inserted, &[&self.inserted, &self.operand_batch], operand.rank())?;
        let starts = format!("{} and {}", names.start, names.operand_batch);
        unique(op, &starts, &[&self.start, &self.operand_batch], operand.rank())?;
        unique(op, names.indices_batch, &[&self.indices_batch], indices.rank())?;
        for (name, axes) in [
            (names.inside, &self.inside),
            (names.inserted, &self.inserted),
            (names.operand_batch, &self.operand_batch),
        ] {
            if !axes.is_sorted() {
                return Err(format!("{op}: {name} is not ascending: {axes:?}"));
            }
        }
        if self.operand_batch.len() != self.indices_batch.len() {
            return Err(format!(
                "{op}: {} names {} axes, {} {}",
                names.operand_batch,
                self.operand_batch.len(),
                names.indices_batch,
                self.indices_batch.len()
            ));
        }
        for (&o, &i) in self.operand_batch.iter().zip(&self.indices_batch) {
            if i == self.vector {
                return Err(format!(
                    "{op}: {} names axis {i}, which is index_vector_dim",
                    names.indices_batch
                ));
            }
            if operand.shape[o] != indices.shape[i] {
                return Err(format!(
                    "{op}: batch sizes differ: operand axis {o} is {}, indices axis {i} is {}",
                    operand.shape[o], indices.shape[i]
                ));
            }
        }
        Ok(())
    }

    /// Axes that run over the windows.
    fn batch_rank(&self, indices_rank: usize) -> usize {
        indices_rank - usize::from(self.vector < indices_rank)
    }

    /// Extents of the axes that run over the windows.
    pub fn batch_shape(&self, indices: &TensorType) -> Vec<u64> {
        let axes = (0..indices.rank()).filter(|&axis| axis != self.vector);
        axes.map(|axis| indices.shape[axis]).collect()
    }

    /// The windows' shape, from extents over the windows and inside one.
    pub fn combine<T: Clone>(&self, batch: &[T], inside: &[T]) -> Vec<T> {
        let rank = batch.len() + inside.len();
        let (mut batch, mut window) = (batch.iter(), inside.iter());
        let pick = |axis| {
            let from = if self.inside.contains(&axis) { &mut window } else { &mut batch };
            from.next().expect("as many axes as the two have").clone()
        };
        (0..rank).map(pick).collect()
    }

    /// Splits an index of the windows' tensor into which window, and where inside.
    pub fn split<T: Clone>(&self, index: &[T]) -> (Vec<T>, Vec<T>) {
        let (mut batch, mut inside) = (Vec::new(), Vec::new());
        for (axis, at) in index.iter().enumerate() {
            if self.inside.contains(&axis) { &mut inside } else { &mut batch }.push(at.clone());
        }
        (batch, inside)
    }

    /// Where in the indices a component of a window's start index stands.
    pub fn component<T: Clone>(&self, batch: &[T], component: T, indices_rank: usize) -> Vec<T> {
        let mut at = batch.to_vec();
        if self.vector < indices_rank {
            at.insert(self.vector, component);
        }
        at
    }

    /// The operand index of a window's element, but for the start index.
    pub fn offset<T: Clone>(&self, batch: &[T], inside: &[T], rank: usize, zero: T) -> Vec<T> {
        let mut inside = inside.iter();
        let pick = |axis| {
            if let Some(n) = self.operand_batch.iter().position(|&a| a == axis) {
                let axis = self.indices_batch[n];
                return batch[axis - usize::from(axis > self.vector)].clone();
            }
            if self.inserted.contains(&axis) {
                return zero.clone();
            }
            inside.next().expect("as many axes as the window has").clone()
        };
        (0..rank).map(pick).collect()
    }

    /// Which of the axes over the windows run along with an operand axis, so that windows of
    /// different positions along them never meet.
    pub fn is_batch(&self, batch_axis: usize) -> bool {
        let axis = batch_axis + usize::from(batch_axis >= self.vector);
        self.indices_batch.contains(&axis)
    }
}

fn unique(op: &str, name: &str, lists: &[&[usize]], rank: usize) -> Result<(), String> {
    let all = lists.concat();
    for (position, &axis) in all.iter().enumerate() {
        if axis >= rank {
            return Err(format!("{op}: {name}: axis {axis} is out of range for rank {rank}"));
        }
        if all[..position].contains(&axis) {
            return Err(format!("{op}: {name} name axis {axis} twice"));
        }
    }
    Ok(())
}
