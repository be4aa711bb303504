//! The program's values: parameters, constants, views, and the results of steps.

use super::Builder;
use crate::Options;
use crate::fuse::{constant, is_constant_storage, viewed};
use jaxrs_ir::{Attribute, Function, Literal, Location, TensorType, ValueDef};
use jaxrs_kernel::program::{Bytes, ConstantId, Donation, Parameter, Storage, Value, ValueId};

impl Builder<'_> {
    /// Makes the parameters, donated where the text or the options say so.
    pub(super) fn parameters(&mut self, options: &Options) {
        let function = self.function;
        let parameters = function.parameters();
        for &index in &options.donate {
            if index as usize >= parameters.len() {
                let count = parameters.len();
                let message = format!("donated argument {index}: there are {count} arguments");
                self.fail(message, &function.location);
            }
        }
        for (index, &parameter) in parameters.iter().enumerate() {
            let donation = donation(function, index, options);
            let storage = Storage::Parameter(index as u32);
            let ty = function.ty(parameter);
            let name = format!("arg{index}");
            let value = self.new_value(name, "parameter", ty, storage, &Location::default());
            self.values[parameter] = value.into();
            self.program.parameters.push(Parameter { value, donation });
        }
    }

    /// The program's value of an IR value that has memory; made now if it is not there yet.
    pub(super) fn value(&mut self, value: jaxrs_ir::ValueId) -> ValueId {
        if let Some(known) = self.values[value].expand() {
            return known;
        }
        let function = self.function;
        let ValueDef::Result(op, _) = function.values[value].def else {
            unreachable!("{value}: an argument's value is made with its block")
        };
        let (ty, location) = (function.ty(value), &function.ops[op].location);
        let op_name = short(function.ops[op].op.name());
        let name = format!("{op_name}.{}", value.as_u32());
        let made = if is_constant_storage(function, value) {
            let bytes = constant(function, value).map_or(Vec::new(), Literal::to_bytes);
            let id = self.constant(bytes);
            let name = format!("c{}", value.as_u32());
            self.new_value(name, "constant", ty, Storage::Constant(id), location)
        } else if let Some(operand) = viewed(function, value) {
            let operand = self.value(operand);
            let storage = match self.program.values[operand].storage {
                view @ Storage::View { .. } => view,
                _ => Storage::View { base: operand, offset: Bytes(0) },
            };
            self.new_value(name, op_name, ty, storage, location)
        } else {
            debug_assert!(self.fused.forms[value].stored, "{name} has no memory");
            self.new_value(name, op_name, ty, Storage::Own, location)
        };
        self.values[value] = made.into();
        made
    }

    pub(super) fn new_value(
        &mut self,
        name: String,
        op: &str,
        ty: &TensorType,
        storage: Storage,
        location: &Location,
    ) -> ValueId {
        self.program.values.push(Value {
            name,
            op: op.to_string(),
            dtype: ty.dtype,
            shape: ty.shape.clone(),
            storage,
            source: location.place(),
        })
    }

    /// The constant of these bytes.
    fn constant(&mut self, bytes: Vec<u8>) -> ConstantId {
        if let Some(&known) = self.constants.get(&bytes) {
            return known;
        }
        let id = self.program.constants.push(bytes.clone());
        self.constants.insert(bytes, id);
        id
    }
}

/// The op's name without its dialect.
pub(super) fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Whether a parameter may be overwritten.
pub fn is_donated(function: &Function, index: usize, options: &Options) -> bool {
    donation(function, index, options) != Donation::Kept
}

fn donation(function: &Function, index: usize, options: &Options) -> Donation {
    let attributes = function.parameter_attributes.get(index);
    let attribute = |name: &str| attributes.and_then(|attributes| attributes.get(name));
    let preferred = match attribute("tf.aliasing_output") {
        Some(Attribute::Int(index, _)) => u32::try_from(*index).ok(),
        _ => None,
    };
    let donor = match attribute("jax.buffer_donor") {
        Some(Attribute::Bool(value)) => *value,
        Some(_) => true,
        None => false,
    };
    if options.donate.contains(&(index as u32)) || donor || preferred.is_some() {
        Donation::Donated { preferred }
    } else {
        Donation::Kept
    }
}
