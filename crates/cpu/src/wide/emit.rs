//! Encodes code whose virtual registers have places.

use super::assign::{Place, Places};
use super::code::{Addr, Code, Ins, Lanes, Src, VReg};
use super::encode::{
    Assembler, Cond, Enc, Gpr, Length, Mask, Mem, R11, RAX, RCX, RDI, RDX, RSI, RSP, Rm, enc,
};

/// Frame bytes with a fixed use: the arguments, the caller's stack pointer, two vectors of lanes.
pub(crate) const RESERVED: i32 = 192;
const ARGUMENTS: i32 = 0;
const STACK_POINTER: i32 = 24;
const LANES: i32 = 64;
const INDICES: i32 = 128;

/// Temporaries of single instructions.
const T0: u8 = 29;
const T1: u8 = 30;
const T2: u8 = 31;
const K0: u8 = 6;
const K1: u8 = 7;

const XOR: Enc = enc(1, 1, 0xef, true);
const MOVE64: Enc = enc(1, 1, 0x6f, true);
const MOVE_STORE: Enc = enc(1, 1, 0x7f, true);
const SPLAT32: Enc = enc(2, 1, 0x58, false);
const SPLAT64: Enc = enc(2, 1, 0x59, true);

/// Machine code of `fn(ptrs, lo, hi)`.
pub(crate) fn emit(code: &Code, places: &Places) -> Vec<u8> {
    let mut emitter = Emitter { asm: Assembler::default(), places };
    emitter.open();
    for ins in &code.instructions {
        emitter.instruction(ins);
    }
    emitter.close();
    emitter.asm.finish(&code.pool)
}

struct Emitter<'a> {
    asm: Assembler,
    places: &'a Places,
}

/// Registers that the caller wants back.
const SAVED: [Gpr; 6] = [3, 5, 12, 13, 14, 15];

fn frame(disp: i32) -> Mem {
    Mem::Base { base: RSP, index: None, disp }
}

impl Emitter<'_> {
    fn saved(&self) -> Vec<Gpr> {
        let used = |r: &Gpr| self.places.generals & 1 << r != 0;
        SAVED.iter().copied().filter(used).collect()
    }

    fn open(&mut self) {
        for reg in self.saved() {
            self.asm.push(reg);
        }
        self.asm.mov(RAX, RSP);
        self.asm.imm(5, RSP, self.places.frame);
        self.asm.imm(4, RSP, -64);
        self.asm.store(frame(STACK_POINTER), RAX);
        for (n, reg) in [RDI, RSI, RDX].into_iter().enumerate() {
            self.asm.store(frame(ARGUMENTS + 8 * n as i32), reg);
        }
    }

    fn close(&mut self) {
        self.asm.load(RSP, frame(STACK_POINTER));
        for reg in self.saved().into_iter().rev() {
            self.asm.pop(reg);
        }
        self.asm.vzeroupper();
        self.asm.ret();
    }

    fn place(&self, reg: VReg) -> Place {
        self.places.of[reg.0 as usize]
    }

    // ---- operands

    /// A general register with the value, `temporary` if it lives in the frame.
    fn general(&mut self, reg: VReg, temporary: Gpr) -> Gpr {
        match self.place(reg) {
            Place::Register(r) => r,
            Place::Frame(disp) => {
                self.asm.load(temporary, frame(disp));
                temporary
            }
            Place::Nowhere => unreachable!("read registers have places"),
        }
    }

    fn general_rm(&self, reg: VReg) -> Rm {
        match self.place(reg) {
            Place::Register(r) => Rm::Gpr(r),
            Place::Frame(disp) => Rm::Mem(frame(disp)),
            Place::Nowhere => unreachable!("read registers have places"),
        }
    }

    /// Where to compute a general register.
    fn general_to(&self, reg: VReg, temporary: Gpr) -> Gpr {
        match self.place(reg) {
            Place::Register(r) => r,
            Place::Frame(_) | Place::Nowhere => temporary,
        }
    }

    fn general_done(&mut self, reg: VReg, value: Gpr) {
        match self.place(reg) {
            Place::Register(r) => self.asm.mov(r, value),
            Place::Frame(disp) => self.asm.store(frame(disp), value),
            Place::Nowhere => {}
        }
    }

    fn address(&mut self, at: &Addr) -> Mem {
        self.address_in(at, RAX, RCX)
    }

    fn address_in(&mut self, at: &Addr, base: Gpr, index: Gpr) -> Mem {
        let base = self.general(at.base, base);
        let index = at.index.map(|(reg, scale)| (self.general(reg, index), scale));
        Mem::Base { base, index, disp: at.disp }
    }

    /// The mask's register; `temporary` if it lives in the frame.
    fn mask(&mut self, reg: VReg, temporary: u8) -> u8 {
        match self.place(reg) {
            Place::Register(k) => k,
            Place::Frame(disp) => {
                self.asm.mask_load(temporary, frame(disp));
                temporary
            }
            Place::Nowhere => unreachable!("read registers have places"),
        }
    }

    fn write_mask(&mut self, mask: Option<VReg>, zero: bool) -> Mask {
        match mask {
            Some(reg) => Mask { k: self.mask(reg, K0), zero },
            None => Mask::default(),
        }
    }

    fn mask_to(&self, reg: VReg) -> u8 {
        match self.place(reg) {
            Place::Register(k) => k,
            Place::Frame(_) | Place::Nowhere => K1,
        }
    }

    fn mask_done(&mut self, reg: VReg, k: u8) {
        if let Place::Frame(disp) = self.place(reg) {
            self.asm.mask_store(frame(disp), k);
        }
    }

    /// A vector register with the operand, `temporary` if it is elsewhere.
    fn vector(&mut self, src: Src, wide: bool, temporary: u8) -> u8 {
        if let Src::Reg(reg) = src
            && let Place::Register(v) = self.place(reg)
        {
            return v;
        }
        self.load_vector(src, wide, temporary);
        temporary
    }

    fn load_vector(&mut self, src: Src, wide: bool, to: u8) {
        let rm = match src {
            Src::Splat(byte) => {
                let splat = if wide { SPLAT64 } else { SPLAT32 };
                let rm = Rm::Mem(Mem::Pool(byte));
                self.asm.evex(splat, Length::Zmm, to, 0, rm, Mask::default(), None);
                return;
            }
            Src::Whole(byte) => Rm::Mem(Mem::Pool(byte)),
            Src::Reg(reg) => match self.place(reg) {
                Place::Register(v) if v == to => return,
                Place::Register(v) => Rm::Vector(v),
                Place::Frame(disp) => Rm::Mem(frame(disp)),
                Place::Nowhere => unreachable!("read registers have places"),
            },
        };
        self.asm.evex(MOVE64, Length::Zmm, to, 0, rm, Mask::default(), None);
    }

    /// The operand as the last one of an instruction.
    fn last(&self, src: Src) -> Rm {
        match src {
            Src::Splat(byte) => Rm::Broadcast(Mem::Pool(byte)),
            Src::Whole(byte) => Rm::Mem(Mem::Pool(byte)),
            Src::Reg(reg) => match self.place(reg) {
                Place::Register(v) => Rm::Vector(v),
                Place::Frame(disp) => Rm::Mem(frame(disp)),
                Place::Nowhere => unreachable!("read registers have places"),
            },
        }
    }

    fn vector_to(&self, reg: VReg) -> u8 {
        match self.place(reg) {
            Place::Register(v) => v,
            Place::Frame(_) | Place::Nowhere => T2,
        }
    }

    fn vector_done(&mut self, reg: VReg, value: u8) {
        match self.place(reg) {
            Place::Register(v) if v == value => {}
            Place::Register(v) => {
                let rm = Rm::Vector(value);
                self.asm.evex(MOVE64, Length::Zmm, v, 0, rm, Mask::default(), None);
            }
            Place::Frame(disp) => {
                let rm = Rm::Mem(frame(disp));
                self.asm.evex(MOVE_STORE, Length::Zmm, value, 0, rm, Mask::default(), None);
            }
            Place::Nowhere => {}
        }
    }

    // ---- instructions

    fn instruction(&mut self, ins: &Ins) {
        match ins {
            Ins::Op { enc, length, to, a, b, imm, mask, merge } => {
                self.op(*enc, *length, *to, *a, *b, *imm, *mask, *merge);
            }
            Ins::Blend { wide, length, to, mask, a, b } => {
                let k = self.mask(*mask, K0);
                let first = self.vector(*a, *wide, T0);
                let (target, rm) = (self.vector_to(*to), self.last(*b));
                let mask = Mask { k, zero: false };
                self.asm.evex(enc(2, 1, 0x64, *wide), *length, target, first, rm, mask, None);
                self.vector_done(*to, target);
            }
            Ins::Shift { enc, extension, length, to, a, imm } => {
                let (target, rm) = (self.vector_to(*to), self.last(Src::Reg(*a)));
                let (mask, imm) = (Mask::default(), Some(*imm));
                self.asm.evex(*enc, *length, *extension, target, rm, mask, imm);
                self.vector_done(*to, target);
            }
            Ins::Fma { wide, length, to, a, b, c } => self.fma(*wide, *length, *to, [*a, *b, *c]),
            Ins::Compare { enc, length, to, a, b, imm } => {
                let first = self.vector(*a, enc.wide, T0);
                let (target, rm) = (self.mask_to(*to), self.last(*b));
                self.asm.evex(*enc, *length, target, first, rm, Mask::default(), *imm);
                self.mask_done(*to, target);
            }
            Ins::Narrow { enc, length, to, a, imm } => {
                let from = self.vector(Src::Reg(*a), true, T0);
                let target = self.vector_to(*to);
                let rm = Rm::Vector(target);
                self.asm.evex(*enc, *length, from, 0, rm, Mask::default(), *imm);
                self.vector_done(*to, target);
            }
            Ins::Copy { to, from, wide } => {
                let target = self.vector_to(*to);
                self.load_vector(*from, *wide, target);
                self.vector_done(*to, target);
            }
            Ins::Load { enc, length, to, at, mask } => {
                let rm = Rm::Mem(self.address(at));
                let mask = self.write_mask(*mask, true);
                let target = self.vector_to(*to);
                self.asm.evex(*enc, *length, target, 0, rm, mask, None);
                self.vector_done(*to, target);
            }
            Ins::Store { enc, length, from, at, mask, imm } => {
                let value = self.vector(Src::Reg(*from), true, T0);
                let rm = Rm::Mem(self.address(at));
                let mask = self.write_mask(*mask, false);
                self.asm.evex(*enc, *length, value, 0, rm, mask, *imm);
            }
            Ins::Gather { enc, length, to, at, index, scale, mask } => {
                let mem = self.lane_address(at, *index, *scale);
                self.working_mask(*mask);
                // Lanes that are off are zero.
                let zero = Rm::Vector(T2);
                self.asm.evex(XOR, Length::Zmm, T2, T2, zero, Mask::default(), None);
                let mask = Mask { k: K0, zero: false };
                self.asm.evex(*enc, *length, T2, 0, Rm::Mem(mem), mask, None);
                self.vector_done(*to, T2);
            }
            Ins::Scatter { enc, length, from, at, index, scale, mask } => {
                let mem = self.lane_address(at, *index, *scale);
                self.working_mask(*mask);
                let value = self.vector(Src::Reg(*from), true, T0);
                let mask = Mask { k: K0, zero: false };
                self.asm.evex(*enc, *length, value, 0, Rm::Mem(mem), mask, None);
            }
            Ins::LaneLoad { bytes, count, to, at, lanes, mask } => {
                self.lanes(*bytes, *count, at, *lanes, *mask, false);
                let target = self.vector_to(*to);
                let rm = Rm::Mem(frame(LANES));
                self.asm.evex(MOVE64, Length::Zmm, target, 0, rm, Mask::default(), None);
                self.vector_done(*to, target);
            }
            Ins::LaneStore { bytes, count, from, at, lanes, mask } => {
                let value = self.vector(Src::Reg(*from), true, T0);
                let rm = Rm::Mem(frame(LANES));
                self.asm.evex(MOVE_STORE, Length::Zmm, value, 0, rm, Mask::default(), None);
                self.lanes(*bytes, *count, at, *lanes, *mask, true);
            }
            Ins::LaneDivide { opcode, count, to, a, b } => {
                for (reg, at) in [(*a, LANES), (*b, INDICES)] {
                    let value = self.vector(Src::Reg(reg), true, T0);
                    let (rm, none) = (Rm::Mem(frame(at)), Mask::default());
                    self.asm.evex(MOVE_STORE, Length::Zmm, value, 0, rm, none, None);
                }
                for lane in 0..i32::from(*count) {
                    self.divide_lane(*opcode, 8 * lane);
                }
                let target = self.vector_to(*to);
                let rm = Rm::Mem(frame(LANES));
                self.asm.evex(MOVE64, Length::Zmm, target, 0, rm, Mask::default(), None);
                self.vector_done(*to, target);
            }
            Ins::Spread { to, from, wide } => {
                let value = self.general(*from, RAX);
                let target = self.vector_to(*to);
                let rm = Rm::Gpr(value);
                let mask = Mask::default();
                self.asm.evex(enc(2, 1, 0x7c, *wide), Length::Zmm, target, 0, rm, mask, None);
                self.vector_done(*to, target);
            }
            Ins::First { to, from, wide } => {
                let value = self.vector(Src::Reg(*from), true, T0);
                let target = self.general_to(*to, RAX);
                let (rm, mask) = (Rm::Gpr(target), Mask::default());
                self.asm.evex(enc(1, 1, 0x7e, *wide), Length::Xmm, value, 0, rm, mask, None);
                self.general_done(*to, target);
            }
            Ins::MaskBinary { opcode, to, a, b } => {
                let (a, b) = (self.mask(*a, K0), self.mask(*b, K1));
                let target = self.mask_to(*to);
                self.asm.mask_binary(*opcode, target, a, b);
                self.mask_done(*to, target);
            }
            Ins::MaskNot { to, a } => {
                let a = self.mask(*a, K0);
                let target = self.mask_to(*to);
                self.asm.mask_not(target, a);
                self.mask_done(*to, target);
            }
            Ins::MaskCopy { to, from } => {
                let from = self.mask(*from, K0);
                match self.place(*to) {
                    Place::Register(k) if k == from => {}
                    Place::Register(k) => self.asm.mask_move(k, from),
                    Place::Frame(disp) => self.asm.mask_store(frame(disp), from),
                    Place::Nowhere => {}
                }
            }
            Ins::MaskToGeneral { to, from } => {
                let from = self.mask(*from, K0);
                self.asm.mask_to_gpr(RAX, from);
                self.general_done(*to, RAX);
            }
            Ins::MaskFromGeneral { to, from } => {
                let from = self.general(*from, RAX);
                self.asm.mov(RAX, from);
                let target = self.mask_to(*to);
                self.asm.mask_from_gpr(target, RAX);
                self.mask_done(*to, target);
            }
            Ins::JumpUnless { mask, bits, label } => {
                let mask = self.mask(*mask, K0);
                self.asm.mask_to_gpr(RAX, mask);
                self.asm.test_bit(RAX, *bits);
                self.asm.jump_if(Cond::Equal, *label);
            }
            other => self.general_instruction(other),
        }
    }

    fn general_instruction(&mut self, ins: &Ins) {
        match ins {
            Ins::Argument { to, index } => {
                let target = self.general_to(*to, RAX);
                self.asm.load(target, frame(ARGUMENTS + 8 * i32::from(*index)));
                self.general_done(*to, target);
            }
            Ins::Immediate { to, value } => {
                let target = self.general_to(*to, RAX);
                self.asm.mov_imm(target, *value);
                self.general_done(*to, target);
            }
            Ins::Move { to, from } => {
                let from = self.general(*from, RAX);
                self.general_done(*to, from);
            }
            Ins::Add { to, a, b } => self.two(*to, *a, *b, true, Assembler::add),
            Ins::Sub { to, a, b } => self.two(*to, *a, *b, false, Assembler::sub),
            Ins::Xor { to, a, b } => self.two(*to, *a, *b, true, Assembler::xor),
            Ins::Mul { to, a, b } => self.two(*to, *a, *b, true, Assembler::imul),
            Ins::AddImm { to, a, value } => {
                let a = self.general(*a, RAX);
                let target = self.general_to(*to, RAX);
                if target == a {
                    self.asm.imm(0, target, *value);
                } else {
                    self.asm.lea(target, Mem::Base { base: a, index: None, disp: *value });
                }
                self.general_done(*to, target);
            }
            Ins::AndImm { to, a, value } => {
                let a = self.general(*a, RAX);
                let target = self.general_to(*to, RAX);
                self.asm.mov(target, a);
                self.asm.imm(4, target, *value);
                self.general_done(*to, target);
            }
            Ins::MulImm { to, a, value } => {
                let a = self.general(*a, RAX);
                let target = self.general_to(*to, RAX);
                self.asm.imul_imm(target, a, *value);
                self.general_done(*to, target);
            }
            Ins::ShiftImm { extension, to, a, by } => {
                let a = self.general(*a, RAX);
                let target = self.general_to(*to, RAX);
                self.asm.mov(target, a);
                self.asm.shift(*extension, target, *by);
                self.general_done(*to, target);
            }
            Ins::Neg { to, a } => {
                let a = self.general(*a, RAX);
                let target = self.general_to(*to, RAX);
                self.asm.mov(target, a);
                self.asm.neg(target);
                self.general_done(*to, target);
            }
            Ins::Min { to, a, b } => self.choose(*to, *a, *b, Cond::Greater),
            Ins::Max { to, a, b } => self.choose(*to, *a, *b, Cond::Less),
            Ins::FloorDiv { quotient, remainder, a, by } => {
                let a = self.general(*a, RAX);
                self.asm.mov(RAX, a);
                self.asm.mov_imm(RCX, *by);
                self.asm.divide_rax(RCX);
                // Where the remainder is negative, one less and `by` more.
                self.asm.mov(R11, RDX);
                self.asm.shift(7, R11, 63);
                self.asm.add(RAX, Rm::Gpr(R11));
                self.asm.and(RCX, Rm::Gpr(R11));
                self.asm.add(RDX, Rm::Gpr(RCX));
                self.general_done(*quotient, RAX);
                self.general_done(*remainder, RDX);
            }
            Ins::IsEqual { to, a, value } => {
                let a = self.general(*a, RAX);
                self.asm.imm(7, a, *value);
                self.asm.set(Cond::Equal, RAX);
                self.general_done(*to, RAX);
            }
            Ins::Scratch { to } => {
                let target = self.general_to(*to, RAX);
                self.asm.lea(target, frame(RESERVED));
                self.general_done(*to, target);
            }
            Ins::LoadAddress { to, at } => {
                let mem = self.address(at);
                let target = self.general_to(*to, RAX);
                self.asm.lea(target, mem);
                self.general_done(*to, target);
            }
            Ins::LoadGeneral { to, at } => {
                let mem = self.address(at);
                let target = self.general_to(*to, RAX);
                self.asm.load(target, mem);
                self.general_done(*to, target);
            }
            Ins::LoadNarrow { bytes, to, at } => {
                let mem = self.address(at);
                let target = self.general_to(*to, RAX);
                self.asm.load_narrow(*bytes, target, mem);
                self.general_done(*to, target);
            }
            Ins::StoreNarrow { bytes, from, at } => {
                let mem = self.address(at);
                let value = self.general(*from, RDX);
                self.asm.store_narrow(*bytes, mem, value);
            }
            Ins::Bind { label, is_loop } => {
                if *is_loop {
                    self.asm.align_loop();
                }
                self.asm.bind(*label);
            }
            Ins::Jump { label } => self.asm.jump(*label),
            Ins::CompareJump { a, b, cond, label } => {
                let a = self.general(*a, RAX);
                let b = self.general_rm(*b);
                self.asm.cmp(a, b);
                self.asm.jump_if(*cond, *label);
            }
            Ins::CompareJumpImm { a, value, cond, label } => {
                let a = self.general(*a, RAX);
                self.asm.imm(7, a, *value);
                self.asm.jump_if(*cond, *label);
            }
            _ => unreachable!("a vector instruction"),
        }
    }

    fn two(&mut self, to: VReg, a: VReg, b: VReg, commutes: bool, op: fn(&mut Assembler, Gpr, Rm)) {
        let target = self.general_to(to, RAX);
        let (mut a, mut b) = (a, b);
        if commutes && self.place(b) == Place::Register(target) {
            std::mem::swap(&mut a, &mut b);
        }
        let second = self.general_rm(b);
        if second == Rm::Gpr(target) && self.place(a) != Place::Register(target) {
            let first = self.general(a, RAX);
            self.asm.mov(RAX, first);
            op(&mut self.asm, RAX, second);
            self.general_done(to, RAX);
            return;
        }
        let first = self.general(a, target);
        self.asm.mov(target, first);
        op(&mut self.asm, target, second);
        self.general_done(to, target);
    }

    /// `a`, or `b` where `a cond b`.
    fn choose(&mut self, to: VReg, a: VReg, b: VReg, cond: Cond) {
        let first = self.general(a, RAX);
        self.asm.mov(RAX, first);
        let second = self.general(b, RCX);
        self.asm.cmp(RAX, Rm::Gpr(second));
        self.asm.cmov(cond, RAX, second);
        self.general_done(to, RAX);
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one instruction")]
    fn op(
        &mut self,
        enc: Enc,
        length: Length,
        to: VReg,
        a: Option<Src>,
        b: Src,
        imm: Option<u8>,
        mask: Option<VReg>,
        merge: Option<VReg>,
    ) {
        let first = a.map_or(0, |a| self.vector(a, enc.wide, T0));
        let rm = self.last(b);
        let target = self.vector_to(to);
        let write = self.write_mask(mask, merge.is_none());
        if let Some(merge) = merge {
            // The old lanes come first, where no operand is overwritten by them.
            self.load_vector(Src::Reg(merge), true, T2);
            self.asm.evex(enc, length, T2, first, rm, write, imm);
            self.vector_done(to, T2);
            return;
        }
        self.asm.evex(enc, length, target, first, rm, write, imm);
        self.vector_done(to, target);
    }

    fn fma(&mut self, wide: bool, length: Length, to: VReg, [a, b, c]: [Src; 3]) {
        let target = self.vector_to(to);
        let is = |src: Src, v: u8| matches!(src, Src::Reg(reg) if self.places.of[reg.0 as usize] == Place::Register(v));
        let in_register = |src: Src| {
            matches!(src, Src::Reg(reg)
                if matches!(self.places.of[reg.0 as usize], Place::Register(_)))
        };
        let (a, b) = if is(b, target) || !in_register(a) { (b, a) } else { (a, b) };
        let none = Mask::default();
        if is(c, target) && !is(a, target) && !is(b, target) {
            // target = a * b + target
            let first = self.vector(a, wide, T0);
            let rm = self.last(b);
            self.asm.evex(enc(2, 1, 0xb8, wide), length, target, first, rm, none, None);
            self.vector_done(to, target);
            return;
        }
        if is(a, target) && !is(b, target) {
            // target = target * b + c
            let second = self.vector(b, wide, T1);
            let rm = self.last(c);
            self.asm.evex(enc(2, 1, 0xa8, wide), length, target, second, rm, none, None);
            self.vector_done(to, target);
            return;
        }
        // The sum in a register of its own.
        let work = if is(a, target) || is(b, target) || is(c, target) { T2 } else { target };
        if in_register(c) {
            self.load_vector(c, wide, work);
            let first = self.vector(a, wide, T0);
            let rm = self.last(b);
            self.asm.evex(enc(2, 1, 0xb8, wide), length, work, first, rm, none, None);
        } else {
            self.load_vector(a, wide, work);
            let second = self.vector(b, wide, T1);
            let rm = self.last(c);
            self.asm.evex(enc(2, 1, 0xa8, wide), length, work, second, rm, none, None);
        }
        self.vector_done(to, work);
    }

    /// Divides two 64-bit lanes in the frame; the result takes the dividend's place.
    fn divide_lane(&mut self, opcode: u8, at: i32) {
        let (signed, remainder) = (opcode & 1 == 0, opcode >= 2);
        self.asm.load(RAX, frame(LANES + at));
        self.asm.load(R11, frame(INDICES + at));
        self.asm.imm(7, R11, 0);
        let by_zero = self.asm.short_skip();
        let mut by_minus_one = None;
        if signed {
            self.asm.imm(7, R11, -1);
            by_minus_one = Some(self.asm.short_skip());
            self.asm.divide_rax(R11);
        } else {
            self.asm.divide_rax_unsigned(R11);
        }
        let done = self.asm.short_jump();
        self.asm.bind_skip(by_zero);
        self.asm.mov(RDX, RAX);
        self.asm.mov_imm(RAX, -1);
        let done_zero = self.asm.short_jump();
        if let Some(skip) = by_minus_one {
            self.asm.bind_skip(skip);
            self.asm.neg(RAX);
            self.asm.mov_imm(RDX, 0);
        }
        self.asm.bind_skip(done);
        self.asm.bind_skip(done_zero);
        self.asm.store(frame(LANES + at), if remainder { RDX } else { RAX });
    }

    /// The mask, or all ones, in `K0`, for an instruction that uses it up.
    fn working_mask(&mut self, mask: Option<VReg>) {
        match mask {
            Some(reg) => {
                let k = self.mask(reg, K0);
                if k != K0 {
                    self.asm.mask_move(K0, k);
                }
            }
            None => self.asm.mask_binary(0x46, K0, K0, K0),
        }
    }

    fn lane_address(&mut self, at: &Addr, index: Src, scale: u8) -> Mem {
        let index = self.vector(index, true, T1);
        let mem = self.address(at);
        let Mem::Base { base, index: offset, disp } = mem else {
            unreachable!("an address of general registers")
        };
        if offset.is_some() {
            self.asm.lea(RAX, mem);
            return Mem::Vector { base: RAX, index, scale, disp: 0 };
        }
        Mem::Vector { base, index, scale, disp }
    }

    /// Moves elements between memory and the frame's lanes, those on in the mask.
    fn lanes(
        &mut self,
        bytes: u8,
        count: u8,
        at: &Addr,
        lanes: Lanes,
        mask: Option<VReg>,
        store: bool,
    ) {
        let mem = self.address(at);
        self.asm.lea(RAX, mem);
        if let Lanes::At(index, _) = lanes {
            let vector = self.vector(Src::Reg(index), true, T1);
            let rm = Rm::Mem(frame(INDICES));
            self.asm.evex(MOVE_STORE, Length::Zmm, vector, 0, rm, Mask::default(), None);
        }
        if let Some(mask) = mask {
            let k = self.mask(mask, K0);
            self.asm.mask_to_gpr(RCX, k);
        }
        for lane in 0..i32::from(count) {
            let skip = mask.map(|_| {
                self.asm.test_bit(RCX, 1 << lane);
                self.asm.short_skip()
            });
            let element = match lanes {
                Lanes::Apart(bytes) => Mem::Base { base: RAX, index: None, disp: lane * bytes },
                Lanes::At(_, scale) => {
                    self.asm.load(RDX, frame(INDICES + 8 * lane));
                    Mem::Base { base: RAX, index: Some((RDX, scale)), disp: 0 }
                }
            };
            let slot = frame(LANES + 4 * lane);
            if store {
                self.asm.load_narrow(4, R11, slot);
                self.asm.store_narrow(bytes, element, R11);
            } else {
                self.asm.load_narrow(bytes, RDX, element);
                self.asm.store_narrow(4, slot, RDX);
            }
            if let Some(skip) = skip {
                self.asm.bind_skip(skip);
            }
        }
    }
}
