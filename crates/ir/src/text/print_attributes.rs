//! Attributes and names as text.

use super::lexer::quote;
use super::literals;
use crate::attribute::{Attribute, Attributes};
use std::fmt::Write;

/// `@name`, quoted where it is no identifier.
pub(super) fn symbol(name: &str) -> String {
    if is_identifier(name) { format!("@{name}") } else { format!("@{}", quote(name)) }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'))
}

pub(super) fn write_ints(out: &mut String, values: &[i64]) {
    out.push('[');
    for (position, value) in values.iter().enumerate() {
        let comma = if position > 0 { ", " } else { "" };
        let _ = write!(out, "{comma}{value}");
    }
    out.push(']');
}

pub(super) fn write_dict(out: &mut String, attributes: &Attributes) {
    out.push('{');
    for (position, (name, value)) in attributes.0.iter().enumerate() {
        if position > 0 {
            out.push_str(", ");
        }
        if is_identifier(name) {
            out.push_str(name);
        } else {
            out.push_str(&quote(name));
        }
        if *value != Attribute::Unit {
            out.push_str(" = ");
            write_attribute(out, value);
        }
    }
    out.push('}');
}

pub(super) fn write_attribute(out: &mut String, value: &Attribute) {
    match value {
        Attribute::Int(value, ty) => {
            let _ = write!(out, "{value}");
            write_type(out, ty.as_deref());
        }
        Attribute::Float(value, ty) => {
            out.push_str(&literals::print_attribute(*value, ty.as_deref()));
            // Bits need a type to be read as a float.
            let default = if value.is_finite() { None } else { Some("f64") };
            write_type(out, ty.as_deref().or(default));
        }
        Attribute::Bool(value) => {
            let _ = write!(out, "{value}");
        }
        Attribute::String(text) => out.push_str(&quote(text)),
        Attribute::Symbol(name) => out.push_str(&symbol(name)),
        Attribute::Type(text) | Attribute::Raw(text) => out.push_str(text),
        Attribute::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push_str(", ");
                }
                write_attribute(out, item);
            }
            out.push(']');
        }
        Attribute::Ints(values, ty) => {
            let _ = write!(out, "array<{ty}");
            for (position, value) in values.iter().enumerate() {
                out.push_str(if position > 0 { ", " } else { ": " });
                match ty.as_str() {
                    "i1" => out.push_str(if *value != 0 { "true" } else { "false" }),
                    _ => {
                        let _ = write!(out, "{value}");
                    }
                }
            }
            out.push('>');
        }
        Attribute::Dense(literal) => {
            out.push_str("dense<");
            literals::print(out, literal);
            let _ = write!(out, "> : {}", literal.ty());
        }
        Attribute::Dict(attributes) => write_dict(out, attributes),
        Attribute::Struct(name, fields) => write_struct(out, name, fields),
        Attribute::Enum(kind, value) => {
            let _ = write!(out, "#stablehlo<{kind} {value}>");
        }
        Attribute::Unit => out.push_str("unit"),
    }
}

fn write_type(out: &mut String, ty: Option<&str>) {
    if let Some(ty) = ty {
        let _ = write!(out, " : {ty}");
    }
}

/// `#name<field = value, ...>`, without empty lists.
fn write_struct(out: &mut String, name: &str, fields: &Attributes) {
    let _ = write!(out, "#{name}<");
    if name == "stablehlo.conv" {
        write_convolution(out, fields);
    } else {
        let mut comma = "";
        for (field, value) in &fields.0 {
            let ints = value.ints();
            if ints.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let _ = write!(out, "{comma}{field} = ");
            match ints {
                Some(values) => write_ints(out, &values),
                None => match value {
                    // Fields know their types.
                    Attribute::Int(value, _) => {
                        let _ = write!(out, "{value}");
                    }
                    other => write_attribute(out, other),
                },
            }
            comma = ", ";
        }
    }
    out.push('>');
}

/// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
fn write_convolution(out: &mut String, fields: &Attributes) {
    let mut bracket = |first: (&str, &str), second: (&str, &str), spatial: &str| {
        let at = |name: &str| match fields.get(name) {
            Some(Attribute::Int(axis, _)) => *axis,
            _ => 0,
        };
        let axes = fields.get(spatial).and_then(Attribute::ints).unwrap_or_default();
        let mut names: Vec<(i128, String)> = axes
            .iter()
            .enumerate()
            .map(|(number, &axis)| (i128::from(axis), number.to_string()))
            .collect();
        names.push((at(first.0), first.1.into()));
        names.push((at(second.0), second.1.into()));
        names.sort_by_key(|&(axis, _)| axis);
        let names: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
        let _ = write!(out, "[{}]", names.join(", "));
        out.push_str(match spatial {
            "input_spatial_dimensions" => "x",
            "kernel_spatial_dimensions" => "->",
            _ => "",
        });
    };
    let batch = |prefix: &str| (format!("{prefix}_batch_dimension"), "b");
    let feature = |prefix: &str| (format!("{prefix}_feature_dimension"), "f");
    for prefix in ["input", "kernel", "output"] {
        let spatial = format!("{prefix}_spatial_dimensions");
        if prefix == "kernel" {
            let input = ("kernel_input_feature_dimension", "i");
            bracket(input, ("kernel_output_feature_dimension", "o"), &spatial);
        } else {
            let (b, f) = (batch(prefix), feature(prefix));
            bracket((&b.0, b.1), (&f.0, f.1), &spatial);
        }
    }
}
