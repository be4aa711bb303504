//! Shows values.

use jaxrs_kernel::DType;

/// A line of text with values, ready to be shown.
pub(super) struct Print {
    label: String,
    /// Lines.
    rows: usize,
    /// Of each operand, in one line: element type, shape, bytes.
    values: Vec<(DType, Vec<u64>, usize)>,
}

impl Print {
    pub(super) fn new(label: &str, axes: u64, operands: &[(DType, Vec<u64>)]) -> Print {
        let axes = axes as usize;
        let rows = operands.first().map_or(1, |(_, shape)| shape[..axes].iter().product::<u64>());
        let value = |(dtype, shape): &(DType, Vec<u64>)| {
            let shape = shape[axes..].to_vec();
            let bytes = shape.iter().product::<u64>() * dtype.size();
            (*dtype, shape, bytes as usize)
        };
        let values = operands.iter().map(value).collect();
        Print { label: label.to_string(), rows: rows as usize, values }
    }

    /// # Safety
    /// `buffers` are the operands'.
    pub(super) unsafe fn run(&self, buffers: *const *mut u8) {
        for row in 0..self.rows {
            let mut values: Vec<(DType, &[u64], &[u8])> = Vec::with_capacity(self.values.len());
            for (n, (dtype, shape, bytes)) in self.values.iter().enumerate() {
                // SAFETY: by the caller, the operand has `rows` times these bytes.
                let bytes = unsafe {
                    let start = *buffers.add(n);
                    std::slice::from_raw_parts(start.add(row * bytes), *bytes)
                };
                values.push((*dtype, shape, bytes));
            }
            jaxrs_runtime::print(&self.label, &values);
        }
    }
}
