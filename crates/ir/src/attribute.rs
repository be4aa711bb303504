//! Attributes as they stand in the text, and typed reading of them.

use crate::literal::Literal;
use crate::types::TensorType;

/// `dense<...>` of more elements than this is not read as a list of integers.
const MAX_INTS: u64 = 1 << 16;

/// An attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// An integer, with its type's spelling if one is given (`1 : i64`).
    Int(i128, Option<String>),
    /// A float, with its type's spelling if one is given.
    Float(f64, Option<String>),
    /// `true` or `false`.
    Bool(bool),
    /// A string.
    String(String),
    /// `@name`.
    Symbol(String),
    /// A type.
    Type(String),
    /// `[a, b]`.
    Array(Vec<Attribute>),
    /// `array<i64: 1, 2>`; of `i1`, its truth values as 0 and 1.
    Ints(Vec<i64>, String),
    /// `dense<...> : tensor<...>`.
    Dense(Literal),
    /// `{a = 1, b}`.
    Dict(Attributes),
    /// A dialect's attribute with fields, e.g. `#stablehlo.gather<offset_dims = [1], ...>`: its
    /// name (`stablehlo.gather`) and fields.
    Struct(String, Attributes),
    /// A dialect's enumeration, e.g. `#stablehlo<precision DEFAULT>` or
    /// `#stablehlo<comparison_direction LT>`: kind (`precision`) and value (`DEFAULT`).
    Enum(String, String),
    /// `unit`, or a name without a value.
    Unit,
    /// Any other attribute, as text; printed as it was read.
    Raw(String),
}

/// Named attributes, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(pub Vec<(String, Attribute)>);

impl Attributes {
    /// No attributes.
    pub fn new() -> Attributes {
        Attributes::default()
    }

    /// With one more.
    #[must_use]
    pub fn with(mut self, name: &str, value: Attribute) -> Attributes {
        self.0.push((name.to_string(), value));
        self
    }

    /// With an `array<i64: ...>`.
    #[must_use]
    pub fn with_ints(self, name: &str, values: &[i64]) -> Attributes {
        self.with(name, Attribute::Ints(values.to_vec(), "i64".into()))
    }

    /// With an `i64`.
    #[must_use]
    pub fn with_int(self, name: &str, value: i64) -> Attributes {
        self.with(name, Attribute::Int(value.into(), Some("i64".into())))
    }

    /// The attribute, if it is there.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// Takes the attribute out.
    pub fn take(&mut self, name: &str) -> Option<Attribute> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes an integer out.
    pub fn take_int(&mut self, name: &str) -> Result<Option<i64>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Attribute::Int(value, _)) => i64::try_from(value)
                .map(Some)
                .map_err(|_| format!("attribute {name}: {value} does not fit into 64 bits")),
            Some(Attribute::Bool(value)) => Ok(Some(value.into())),
            Some(other) => Err(format!("attribute {name}: expected an integer, found {other:?}")),
        }
    }

    /// Takes a truth value out; `default` where it is not there.
    pub fn take_bool(&mut self, name: &str, default: bool) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(default),
            Some(Attribute::Bool(value)) => Ok(value),
            Some(Attribute::Int(value, _)) => Ok(value != 0),
            Some(Attribute::Unit) => Ok(true),
            Some(other) => {
                Err(format!("attribute {name}: expected true or false, found {other:?}"))
            }
        }
    }

    /// Takes a list of integers out: `array<i64: ...>`, `[1, 2]`, or `dense<...>` of integers.
    pub fn take_ints(&mut self, name: &str) -> Result<Option<Vec<i64>>, String> {
        self.take(name)
            .map(|value| value.ints().ok_or(()))
            .transpose()
            .map_err(|()| format!("attribute {name}: expected a list of integers"))
    }

    /// Like [`Attributes::take_ints`], an error where it is missing.
    pub fn need_ints(&mut self, name: &str) -> Result<Vec<i64>, String> {
        self.take_ints(name)?.ok_or_else(|| format!("attribute {name} is missing"))
    }

    /// Like [`Attributes::take_int`], an error where it is missing.
    pub fn need_int(&mut self, name: &str) -> Result<i64, String> {
        self.take_int(name)?.ok_or_else(|| format!("attribute {name} is missing"))
    }

    /// Takes the fields of a dialect's attribute out, e.g. of `#stablehlo.dot<...>`; an error where
    /// it is missing.
    pub fn need_fields(&mut self, name: &str) -> Result<Attributes, String> {
        match self.take(name) {
            None => Err(format!("attribute {name} is missing")),
            Some(Attribute::Struct(_, fields) | Attribute::Dict(fields)) => Ok(fields),
            Some(other) => Err(format!("attribute {name}: expected fields, found {other:?}")),
        }
    }

    /// Takes the value of an enumeration out, e.g. `LT`; a plain string counts, too.
    pub fn take_enum(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Attribute::Enum(_, value) | Attribute::String(value)) => Ok(Some(value)),
            Some(Attribute::Raw(value)) => Ok(Some(value)),
            Some(other) => Err(format!("attribute {name}: expected a name, found {other:?}")),
        }
    }
}

impl Attribute {
    /// The integers of any list of integers.
    pub fn ints(&self) -> Option<Vec<i64>> {
        match self {
            Attribute::Ints(values, _) => Some(values.clone()),
            Attribute::Array(items) => items
                .iter()
                .map(|item| match item {
                    Attribute::Int(value, _) => i64::try_from(*value).ok(),
                    Attribute::Bool(value) => Some(i64::from(*value)),
                    _ => None,
                })
                .collect(),
            // A splat's type may have any number of elements; no list of integers is that long.
            Attribute::Dense(literal)
                if !literal.ty().dtype.is_float() && literal.ty().len() <= MAX_INTS =>
            {
                Some((0..literal.ty().len()).map(|i| literal.int(i)).collect())
            }
            _ => None,
        }
    }
}

/// Axes from an attribute, checked against a rank.
pub fn axes(values: &[i64], rank: usize, what: &str) -> Result<Vec<usize>, String> {
    let check = |&axis: &i64| {
        usize::try_from(axis)
            .ok()
            .filter(|&a| a < rank)
            .ok_or_else(|| format!("{what}: axis {axis} is out of range for rank {rank}"))
    };
    values.iter().map(check).collect()
}

/// A type's extents as signed numbers.
pub fn extents(ty: &TensorType) -> Vec<i64> {
    ty.shape.iter().map(|&e| e as i64).collect()
}
