//! Elements in memory as scalar registers hold them.

use super::scalar::{Scalars, scalar_type};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use jaxrs_kernel::{DType, RegType, UnaryOp};

/// An address: a base and a constant number of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: Value,
    pub(crate) offset: i32,
}

/// Accesses of kernels never trap where they stand; moved out of a branch they might.
pub(crate) fn access_flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Scalars<'_, '_> {
    /// Reads an element.
    pub(crate) fn load(&mut self, dtype: DType, at: Address) -> Value {
        let ty = match dtype {
            DType::BF16 | DType::F16 => types::I16,
            other => scalar_type(other.reg()),
        };
        let value = self.builder.ins().load(ty, access_flags(), at.base, at.offset);
        match dtype {
            DType::BF16 => self.unary(UnaryOp::FromBitsBf16, RegType::I16, value),
            DType::F16 => self.unary(UnaryOp::FromBitsF16, RegType::I16, value),
            _ => value,
        }
    }

    /// Writes an element.
    pub(crate) fn store(&mut self, dtype: DType, at: Address, value: Value) {
        let value = match dtype {
            // The register holds a value of the narrow type exactly.
            DType::BF16 => {
                let bits = self.bitcast(types::I32, value);
                let high = self.builder.ins().ushr_imm_u(bits, 16);
                self.reduce(types::I16, high)
            }
            DType::F16 => self.unary(UnaryOp::BitsF16, RegType::F32, value),
            _ => value,
        };
        self.builder.ins().store(access_flags(), value, at.base, at.offset);
    }
}
