//! Instructions over unlimited virtual registers: what [`super::lower`] writes, [`super::assign`]
//! gives machine registers and [`super::emit`] encodes.
//!
//! A virtual register may be written more than once (loop variables, accumulators); it is then
//! live from the first write, over every loop that it is live into.

use super::encode::{Cond, Enc, Label, Length};

/// A virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct VReg(pub(crate) u32);

/// What a virtual register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A vector.
    Vector,
    /// A mask, a bit a lane.
    Mask,
    /// An `i64` or an address.
    General,
}

/// A vector operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Src {
    Reg(VReg),
    /// One element of the constants, for all lanes; its size is that of the instruction's elements.
    Splat(u32),
    /// A whole vector of the constants.
    Whole(u32),
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addr {
    pub(crate) base: VReg,
    pub(crate) index: Option<(VReg, u8)>,
    pub(crate) disp: i32,
}

/// Where the lanes of a gather or scatter are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// A constant number of bytes apart.
    Apart(i32),
    /// At `scale` times the 64-bit lanes of a vector.
    At(VReg, u8),
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) enum Ins {
    /// `to = op(a, b)`, or `op(b)` without `a`. With `merge`, lanes off in `mask` keep its value;
    /// without, they become zero.
    Op {
        enc: Enc,
        length: Length,
        to: VReg,
        a: Option<Src>,
        b: Src,
        imm: Option<u8>,
        mask: Option<VReg>,
        merge: Option<VReg>,
    },
    /// `to = mask ? b : a`.
    Blend {
        wide: bool,
        length: Length,
        to: VReg,
        mask: VReg,
        a: Src,
        b: Src,
    },
    /// A shift by a constant.
    Shift {
        enc: Enc,
        extension: u8,
        length: Length,
        to: VReg,
        a: VReg,
        imm: u8,
    },
    /// `to = a * b + c`, rounded once.
    Fma {
        wide: bool,
        length: Length,
        to: VReg,
        a: Src,
        b: Src,
        c: Src,
    },
    /// A mask from a comparison.
    Compare {
        enc: Enc,
        length: Length,
        to: VReg,
        a: Src,
        b: Src,
        imm: Option<u8>,
    },
    /// A vector from one that has half or a quarter as many bytes, or the other way round:
    /// the operand's register is the ModRM register.
    Narrow {
        enc: Enc,
        length: Length,
        to: VReg,
        a: VReg,
        imm: Option<u8>,
    },
    /// The same vector.
    Copy {
        to: VReg,
        from: Src,
        wide: bool,
    },
    Load {
        enc: Enc,
        length: Length,
        to: VReg,
        at: Addr,
        mask: Option<VReg>,
    },
    Store {
        enc: Enc,
        length: Length,
        from: VReg,
        at: Addr,
        mask: Option<VReg>,
        imm: Option<u8>,
    },
    /// Elements of 4 or 8 bytes at 32-bit (`index` in the constants) or 64-bit indices.
    Gather {
        enc: Enc,
        length: Length,
        to: VReg,
        at: Addr,
        index: Src,
        scale: u8,
        mask: Option<VReg>,
    },
    Scatter {
        enc: Enc,
        length: Length,
        from: VReg,
        at: Addr,
        index: Src,
        scale: u8,
        mask: Option<VReg>,
    },
    /// Elements of 1, 2 or 4 bytes, one after the other, zero extended to 32 bits.
    LaneLoad {
        bytes: u8,
        count: u8,
        to: VReg,
        at: Addr,
        lanes: Lanes,
        mask: Option<VReg>,
    },
    LaneStore {
        bytes: u8,
        count: u8,
        from: VReg,
        at: Addr,
        lanes: Lanes,
        mask: Option<VReg>,
    },
    /// 64-bit integer division (opcode: 0 signed quotient, 1 unsigned quotient, 2 signed remainder,
    /// 3 unsigned remainder) lane by lane.
    LaneDivide {
        opcode: u8,
        count: u8,
        to: VReg,
        a: VReg,
        b: VReg,
    },
    /// A general register's value in all lanes.
    Spread {
        to: VReg,
        from: VReg,
        wide: bool,
    },
    /// The first lane.
    First {
        to: VReg,
        from: VReg,
        wide: bool,
    },
    MaskBinary {
        opcode: u8,
        to: VReg,
        a: VReg,
        b: VReg,
    },
    MaskNot {
        to: VReg,
        a: VReg,
    },
    MaskCopy {
        to: VReg,
        from: VReg,
    },
    MaskToGeneral {
        to: VReg,
        from: VReg,
    },
    MaskFromGeneral {
        to: VReg,
        from: VReg,
    },
    /// Jumps if none of the bits is set.
    JumpUnless {
        mask: VReg,
        bits: i32,
        label: Label,
    },
    /// The argument with this number.
    Argument {
        to: VReg,
        index: u8,
    },
    Immediate {
        to: VReg,
        value: i64,
    },
    Move {
        to: VReg,
        from: VReg,
    },
    Add {
        to: VReg,
        a: VReg,
        b: VReg,
    },
    Sub {
        to: VReg,
        a: VReg,
        b: VReg,
    },
    Xor {
        to: VReg,
        a: VReg,
        b: VReg,
    },
    AddImm {
        to: VReg,
        a: VReg,
        value: i32,
    },
    AndImm {
        to: VReg,
        a: VReg,
        value: i32,
    },
    MulImm {
        to: VReg,
        a: VReg,
        value: i32,
    },
    Mul {
        to: VReg,
        a: VReg,
        b: VReg,
    },
    /// 4 left, 5 right, 7 right with the sign.
    ShiftImm {
        extension: u8,
        to: VReg,
        a: VReg,
        by: u8,
    },
    /// Negation.
    Neg {
        to: VReg,
        a: VReg,
    },
    Min {
        to: VReg,
        a: VReg,
        b: VReg,
    },
    Max {
        to: VReg,
        a: VReg,
        b: VReg,
    },
    /// Floor quotient and non-negative remainder by a positive constant.
    FloorDiv {
        quotient: VReg,
        remainder: VReg,
        a: VReg,
        by: i64,
    },
    /// 1 where `a` is equal to a constant, else 0.
    IsEqual {
        to: VReg,
        a: VReg,
        value: i32,
    },
    /// The address of the scratch bytes in the frame.
    Scratch {
        to: VReg,
    },
    LoadAddress {
        to: VReg,
        at: Addr,
    },
    LoadGeneral {
        to: VReg,
        at: Addr,
    },
    LoadNarrow {
        bytes: u8,
        to: VReg,
        at: Addr,
    },
    StoreNarrow {
        bytes: u8,
        from: VReg,
        at: Addr,
    },
    Bind {
        label: Label,
        is_loop: bool,
    },
    Jump {
        label: Label,
    },
    CompareJump {
        a: VReg,
        b: VReg,
        cond: Cond,
        label: Label,
    },
    CompareJumpImm {
        a: VReg,
        value: i32,
        cond: Cond,
        label: Label,
    },
}

impl Ins {
    /// Calls `see` with every register read (false) and written (true).
    pub(crate) fn visit(&self, see: &mut impl FnMut(VReg, bool)) {
        let source = |src: &Src, see: &mut dyn FnMut(VReg, bool)| {
            if let Src::Reg(reg) = src {
                see(*reg, false);
            }
        };
        let address = |at: &Addr, see: &mut dyn FnMut(VReg, bool)| {
            see(at.base, false);
            if let Some((index, _)) = at.index {
                see(index, false);
            }
        };
        let optional = |reg: &Option<VReg>, see: &mut dyn FnMut(VReg, bool)| {
            if let Some(reg) = reg {
                see(*reg, false);
            }
        };
        match self {
            Ins::Op { to, a, b, mask, merge, .. } => {
                if let Some(a) = a {
                    source(a, see);
                }
                source(b, see);
                optional(mask, see);
                optional(merge, see);
                see(*to, true);
            }
            Ins::Blend { to, mask, a, b, .. } => {
                source(a, see);
                source(b, see);
                see(*mask, false);
                see(*to, true);
            }
            Ins::Shift { to, a, .. } | Ins::Narrow { to, a, .. } => {
                see(*a, false);
                see(*to, true);
            }
            Ins::Fma { to, a, b, c, .. } => {
                for s in [a, b, c] {
                    source(s, see);
                }
                see(*to, true);
            }
            Ins::Compare { to, a, b, .. } => {
                for s in [a, b] {
                    source(s, see);
                }
                see(*to, true);
            }
            Ins::Copy { to, from, .. } => {
                source(from, see);
                see(*to, true);
            }
            Ins::Load { to, at, mask, .. } => {
                address(at, see);
                optional(mask, see);
                see(*to, true);
            }
            Ins::Store { from, at, mask, .. } => {
                see(*from, false);
                address(at, see);
                optional(mask, see);
            }
            Ins::Gather { to, at, index, mask, .. } => {
                address(at, see);
                source(index, see);
                optional(mask, see);
                see(*to, true);
            }
            Ins::Scatter { from, at, index, mask, .. } => {
                see(*from, false);
                address(at, see);
                source(index, see);
                optional(mask, see);
            }
            Ins::LaneLoad { to, at, lanes, mask, .. } => {
                address(at, see);
                if let Lanes::At(index, _) = lanes {
                    see(*index, false);
                }
                optional(mask, see);
                see(*to, true);
            }
            Ins::LaneStore { from, at, lanes, mask, .. } => {
                see(*from, false);
                address(at, see);
                if let Lanes::At(index, _) = lanes {
                    see(*index, false);
                }
                optional(mask, see);
            }
            Ins::MaskBinary { to, a, b, .. }
            | Ins::LaneDivide { to, a, b, .. }
            | Ins::Add { to, a, b }
            | Ins::Sub { to, a, b }
            | Ins::Xor { to, a, b }
            | Ins::Mul { to, a, b }
            | Ins::Min { to, a, b }
            | Ins::Max { to, a, b } => {
                see(*a, false);
                see(*b, false);
                see(*to, true);
            }
            Ins::Spread { to, from: a, .. }
            | Ins::First { to, from: a, .. }
            | Ins::MaskNot { to, a }
            | Ins::MaskCopy { to, from: a }
            | Ins::MaskToGeneral { to, from: a }
            | Ins::MaskFromGeneral { to, from: a }
            | Ins::Move { to, from: a }
            | Ins::AddImm { to, a, .. }
            | Ins::AndImm { to, a, .. }
            | Ins::MulImm { to, a, .. }
            | Ins::ShiftImm { to, a, .. }
            | Ins::Neg { to, a }
            | Ins::IsEqual { to, a, .. } => {
                see(*a, false);
                see(*to, true);
            }
            Ins::FloorDiv { quotient, remainder, a, .. } => {
                see(*a, false);
                see(*quotient, true);
                see(*remainder, true);
            }
            Ins::Argument { to, .. } | Ins::Immediate { to, .. } | Ins::Scratch { to } => {
                see(*to, true);
            }
            Ins::LoadAddress { to, at }
            | Ins::LoadGeneral { to, at }
            | Ins::LoadNarrow { to, at, .. } => {
                address(at, see);
                see(*to, true);
            }
            Ins::StoreNarrow { from, at, .. } => {
                see(*from, false);
                address(at, see);
            }
            Ins::JumpUnless { mask, .. } => see(*mask, false),
            Ins::CompareJump { a, b, .. } => {
                see(*a, false);
                see(*b, false);
            }
            Ins::CompareJumpImm { a, .. } => see(*a, false),
            Ins::Bind { .. } | Ins::Jump { .. } => {}
        }
    }
}

/// Code over virtual registers.
#[derive(Default)]
pub(crate) struct Code {
    pub(crate) instructions: Vec<Ins>,
    pub(crate) classes: Vec<Class>,
    /// Constants behind the code.
    pub(crate) pool: Vec<u8>,
    pub(crate) labels: u32,
    /// Bytes of scratch memory in the frame.
    pub(crate) scratch: i32,
}

impl Code {
    pub(crate) fn reg(&mut self, class: Class) -> VReg {
        self.classes.push(class);
        VReg(self.classes.len() as u32 - 1)
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }
}
