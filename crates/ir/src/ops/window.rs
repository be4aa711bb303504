//! Windows that slide over a tensor: `reduce_window`, `select_and_scatter`, `convolution`.

use crate::attribute::Attributes;
use jaxrs_kernel::builder::{Guard, KernelBuilder};
use jaxrs_kernel::{Affine, Compare, CompareKind, RegType};

/// A window along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowAxis {
    /// Elements of the window.
    pub extent: u64,
    /// Distance from one window to the next.
    pub stride: i64,
    /// Distance between elements of the tensor, with padding between them.
    pub base_dilation: i64,
    /// Distance between elements of the window.
    pub dilation: i64,
    /// Padding before the tensor; negative: elements left out.
    pub low: i64,
    /// Padding after the tensor.
    pub high: i64,
}

impl WindowAxis {
    /// A window of one element at each element.
    pub const POINT: WindowAxis =
        WindowAxis { extent: 1, stride: 1, base_dilation: 1, dilation: 1, low: 0, high: 0 };

    /// How many windows there are over an axis of so many elements, or what is wrong.
    pub fn windows(&self, elements: u64) -> Result<u64, String> {
        for (what, value) in [
            ("stride", self.stride),
            ("base dilation", self.base_dilation),
            ("window dilation", self.dilation),
        ] {
            if value < 1 {
                return Err(format!("the {what} is {value}, expected at least 1"));
            }
        }
        let spread = |n: u64, by: i64| match n {
            0 => 0,
            n => (i128::from(n) - 1) * i128::from(by) + 1,
        };
        let tensor = spread(elements, self.base_dilation);
        let padded = i128::from(self.low) + tensor + i128::from(self.high);
        let window = spread(self.extent, self.dilation);
        // Positions are computed in 64 bits, with room for sums of a few of them.
        let large = 1 << 60;
        for size in [padded, window, tensor, self.low.into(), self.high.into()] {
            if size.abs() > large || i128::from(self.stride) > large {
                return Err(format!("the window {self:?} is too large"));
            }
        }
        if padded <= 0 || window > padded {
            return Ok(0);
        }
        Ok(((padded - window) / i128::from(self.stride) + 1) as u64)
    }

    /// The element of the tensor under a window's element, if there is one.
    pub fn source(&self, elements: u64, window: u64, inside: u64) -> Option<u64> {
        let at = window as i64 * self.stride + inside as i64 * self.dilation - self.low;
        let element = u64::try_from(at.div_euclid(self.base_dilation)).ok()?;
        (at.rem_euclid(self.base_dilation) == 0 && element < elements).then_some(element)
    }

    /// The same in a kernel: the element, and the condition that there is one.
    pub fn locate(
        &self,
        b: &mut KernelBuilder,
        elements: u64,
        window: &Affine,
        inside: &Affine,
    ) -> (Affine, Guard) {
        if elements == 0 {
            return (Affine::constant(0), Guard::Never);
        }
        let at = window.scale(self.stride).add(&inside.scale(self.dilation)).offset(-self.low);
        let end = (elements as i64 - 1) * self.base_dilation + 1;
        let mut guard = b.in_range(&at, 0, end);
        if self.base_dilation == 1 || guard == Guard::Never {
            return (at, guard);
        }
        let rest = b.modulo(&at, self.base_dilation);
        let on_element = match rest.as_constant() {
            Some(0) => Guard::Always,
            Some(_) => Guard::Never,
            None => {
                let (rest, zero) = (b.index_value(&rest), b.int(RegType::I64, 0));
                Guard::When(b.compare(Compare::Eq, CompareKind::Signed, rest, zero))
            }
        };
        guard = b.both(guard, on_element);
        (b.floor_div(&at, self.base_dilation), guard)
    }
}

/// Which lists of a window an op has, by name; the others have their neutral values.
pub struct Names<'a> {
    /// The op.
    pub op: &'a str,
    /// Extents.
    pub extents: Option<&'a str>,
    /// Strides.
    pub strides: &'a str,
    /// Dilations of the tensor.
    pub base_dilations: Option<&'a str>,
    /// Dilations of the window.
    pub dilations: Option<&'a str>,
}

/// Reads the lists of a window over `rank` axes.
pub fn read(
    attributes: &mut Attributes,
    names: &Names<'_>,
    rank: usize,
) -> Result<Vec<WindowAxis>, String> {
    let op = names.op;
    let mut list = |name: Option<&str>, count: usize, default: i64| -> Result<Vec<i64>, String> {
        let values = match name {
            Some(name) => attributes.take_ints(name)?,
            None => None,
        };
        let values = values.unwrap_or_else(|| vec![default; count]);
        if values.len() == count {
            return Ok(values);
        }
        Err(format!(
            "{op}: {} has {} entries, expected {count}",
            name.unwrap_or_default(),
            values.len()
        ))
    };
    let extents = list(names.extents, rank, 1)?;
    let strides = list(Some(names.strides), rank, 1)?;
    let base_dilations = list(names.base_dilations, rank, 1)?;
    let dilations = list(names.dilations, rank, 1)?;
    let padding = list(Some("padding"), 2 * rank, 0)?;
    let axis = |axis: usize| {
        let extent = u64::try_from(extents[axis]).ok().filter(|&e| e > 0);
        let extent = extent.ok_or_else(|| {
            format!("{op}: the window is {} in axis {axis}, expected at least 1", extents[axis])
        })?;
        Ok(WindowAxis {
            extent,
            stride: strides[axis],
            base_dilation: base_dilations[axis],
            dilation: dilations[axis],
            low: padding[2 * axis],
            high: padding[2 * axis + 1],
        })
    };
    (0..rank).map(axis).collect()
}

/// The attributes that [`read`] reads.
pub fn write(axes: &[WindowAxis], names: &Names<'_>) -> Attributes {
    let list = |get: fn(&WindowAxis) -> i64| axes.iter().map(get).collect::<Vec<i64>>();
    let mut attributes = Attributes::new();
    for (name, values) in [
        (names.base_dilations, list(|a| a.base_dilation)),
        (names.dilations, list(|a| a.dilation)),
        (names.extents, list(|a| a.extent as i64)),
        (Some(names.strides), list(|a| a.stride)),
    ] {
        if let Some(name) = name {
            attributes = attributes.with_ints(name, &values);
        }
    }
    let padding: Vec<i64> = axes.iter().flat_map(|a| [a.low, a.high]).collect();
    attributes.with("padding", pairs(&padding))
}

/// A list of pairs as a `dense` of type `tensor<Nx2xi64>`.
fn pairs(values: &[i64]) -> crate::Attribute {
    let ty = crate::TensorType::new([values.len() as u64 / 2, 2], crate::DType::I64);
    let bits: Vec<u64> = values.iter().map(|&v| v as u64).collect();
    crate::Attribute::Dense(crate::Literal::from_bits(ty, &bits))
}

/// The windows' shape over a tensor's.
pub fn windows(op: &str, axes: &[WindowAxis], shape: &[u64]) -> Result<Vec<u64>, String> {
    if axes.len() != shape.len() {
        return Err(format!(
            "{op}: the window has {} axes, the tensor {}",
            axes.len(),
            shape.len()
        ));
    }
    let count = |(axis, (window, &elements)): (usize, (&WindowAxis, &u64))| {
        window.windows(elements).map_err(|message| format!("{op}: axis {axis}: {message}"))
    };
    let elements = axes.iter().fold(1, |product: u64, axis| product.saturating_mul(axis.extent));
    if elements > LARGEST {
        return Err(format!(
            "{op}: the window has {elements} elements, at most {LARGEST} are taken"
        ));
    }
    axes.iter().zip(shape).enumerate().map(count).collect()
}

/// Elements of a window, at most: enough for any tensor in memory.
const LARGEST: u64 = 1 << 40;
