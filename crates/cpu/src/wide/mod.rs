//! Kernels as AVX-512 code, without Cranelift.
//!
//! [`analysis`] chooses the loops that become lanes, [`lower`] writes the kernel over virtual
//! registers ([`code`]), with [`loops`], [`branches`], [`address`], [`memory`] ([`near`] and [`tile`]
//! are accesses in other orders), and [`ops`] with its [`operands`], [`conversions`] and what goes
//! [`across`] lanes. [`assign`] gives them machine registers, and [`emit`] encodes with [`encode`]. A kernel with an instruction that vectors lack, or with much
//! work outside of such loops, is left to Cranelift.

mod across;
mod address;
mod analysis;
mod assign;
mod branches;
pub(crate) mod code;
mod conversions;
mod emit;
pub(crate) mod encode;
mod loops;
mod lower;
#[allow(clippy::wrong_self_convention, reason = "conversions are code that is written")]
mod memory;
mod near;
mod operands;
mod ops;
mod tile;

use jaxrs_kernel::Kernel;

/// What the processor offers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Features {
    /// AVX-512 with doubleword, byte, vector-length and conflict instructions.
    pub(crate) wide: bool,
    /// Counting bits.
    pub(crate) popcnt: bool,
}

/// This machine's features.
pub(crate) fn features() -> Features {
    #[cfg(all(target_arch = "x86_64", unix))]
    {
        use std::arch::is_x86_feature_detected as has;
        Features {
            wide: has!("avx512f")
                && has!("avx512dq")
                && has!("avx512bw")
                && has!("avx512vl")
                && has!("avx512cd"),
            popcnt: has!("avx512vpopcntdq"),
        }
    }
    #[cfg(not(all(target_arch = "x86_64", unix)))]
    Features::default()
}

/// The machine code of a kernel, if it is one for this module, and its text if asked for.
pub(crate) fn compile(kernel: &Kernel, text: bool) -> Option<(Vec<u8>, String)> {
    if !features().wide {
        return None;
    }
    let chosen = analysis::choose(kernel)?;
    let code = lower::lower(kernel, &chosen);
    let places = assign::assign(&code, emit::RESERVED + code.scratch);
    let text = if text { listing(&code, &places) } else { String::new() };
    Some((emit::emit(&code, &places), text))
}

/// The vector code of a kernel for machines with other vectors, if it has loops for lanes.
pub(crate) fn portable(kernel: &Kernel) -> Option<code::Code> {
    let chosen = analysis::choose(kernel)?;
    (!chosen.is_empty()).then(|| lower::lower(kernel, &chosen))
}

/// The code with the places of its registers.
fn listing(code: &code::Code, places: &assign::Places) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for ins in &code.instructions {
        let mut line = format!("{ins:?}");
        ins.visit(&mut |reg, _| {
            let place = match (places.of[reg.0 as usize], code.classes[reg.0 as usize]) {
                (assign::Place::Register(n), code::Class::Vector) => format!("zmm{n}"),
                (assign::Place::Register(n), code::Class::Mask) => format!("k{n}"),
                (assign::Place::Register(n), code::Class::General) => format!("r{n}"),
                (assign::Place::Frame(at), _) => format!("[rsp+{at}]"),
                (assign::Place::Nowhere, _) => "-".into(),
            };
            line = line.replace(&format!("VReg({})", reg.0), &place);
        });
        writeln!(out, "{line}").expect("writing to a string");
    }
    out
}
