//! Encodes AVX-512 and general x86-64 instructions.
//!
//! Vector instructions all take the EVEX form, with 32-bit displacements throughout: code size
//! matters less than a small encoder.

/// A general register, by number (`rax` is 0).
pub(crate) type Gpr = u8;

pub(crate) const RAX: Gpr = 0;
pub(crate) const RCX: Gpr = 1;
pub(crate) const RDX: Gpr = 2;
pub(crate) const RSP: Gpr = 4;
pub(crate) const RSI: Gpr = 6;
pub(crate) const RDI: Gpr = 7;
pub(crate) const R11: Gpr = 11;

/// The encoding of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enc {
    /// Opcode map: 1 is 0F, 2 is 0F38, 3 is 0F3A.
    pub(crate) map: u8,
    /// Mandatory prefix: 0 none, 1 is 66, 2 is F3, 3 is F2.
    pub(crate) prefix: u8,
    pub(crate) opcode: u8,
    /// The W bit: 64-bit elements.
    pub(crate) wide: bool,
}

/// Shorthand for [`Enc`].
pub(crate) const fn enc(map: u8, prefix: u8, opcode: u8, wide: bool) -> Enc {
    Enc { map, prefix, opcode, wide }
}

/// The length of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Xmm = 0,
    Ymm = 1,
    Zmm = 2,
}

/// A memory operand in machine registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mem {
    /// `[base + index * scale + disp]`.
    Base { base: Gpr, index: Option<(Gpr, u8)>, disp: i32 },
    /// `[base + vector * scale]`, for gathers and scatters.
    Vector { base: Gpr, index: u8, scale: u8, disp: i32 },
    /// A byte of the constants behind the code.
    Pool(u32),
}

/// The last operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rm {
    /// A vector register.
    Vector(u8),
    /// A general register.
    Gpr(Gpr),
    /// Memory.
    Mem(Mem),
    /// One element in memory, for all lanes.
    Broadcast(Mem),
}

/// Write mask of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mask {
    /// The mask register; 0 is none.
    pub(crate) k: u8,
    /// Whether lanes that are off become zero.
    pub(crate) zero: bool,
}

/// Conditions of a jump, by their code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cond {
    Equal = 0x4,
    Less = 0xc,
    GreaterEqual = 0xd,
    Greater = 0xf,
}

/// A place in the code to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(pub(crate) u32);

/// Code being written.
#[derive(Default)]
pub(crate) struct Assembler {
    pub(crate) code: Vec<u8>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
    /// Position of a displacement, position of the instruction's end, byte in the pool.
    pool_uses: Vec<(usize, usize, u32)>,
}

impl Assembler {
    /// The finished code with its constants behind it.
    pub(crate) fn finish(mut self, pool: &[u8]) -> Vec<u8> {
        for &(at, label) in &self.jumps {
            let target = self.labels[label.0 as usize].expect("every label is bound");
            let distance = target as i64 - (at as i64 + 4);
            self.code[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        if !pool.is_empty() {
            self.code.resize(self.code.len().next_multiple_of(64), 0xcc);
            let start = self.code.len();
            for &(at, end, byte) in &self.pool_uses {
                let distance = (start + byte as usize) as i64 - end as i64;
                self.code[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
            }
            self.code.extend_from_slice(pool);
        }
        self.code
    }

    pub(crate) fn bind(&mut self, label: Label) {
        let index = label.0 as usize;
        if self.labels.len() <= index {
            self.labels.resize(index + 1, None);
        }
        self.labels[index] = Some(self.code.len());
    }

    fn byte(&mut self, byte: u8) {
        self.code.push(byte);
    }

    fn dword(&mut self, value: i32) {
        self.code.extend_from_slice(&value.to_le_bytes());
    }

    /// ModRM, SIB and displacement of a memory operand; `tail` bytes of the instruction follow.
    fn memory(&mut self, reg: u8, mem: Mem, tail: usize) {
        let reg = (reg & 7) << 3;
        match mem {
            Mem::Pool(byte) => {
                self.byte(reg | 5);
                let at = self.code.len();
                self.dword(0);
                self.pool_uses.push((at, at + 4 + tail, byte));
            }
            Mem::Base { base, index, disp } => {
                let mode = if disp == 0 && base & 7 != 5 { 0x00 } else { 0x80 };
                match index {
                    None if base & 7 != 4 => self.byte(mode | reg | (base & 7)),
                    None => {
                        self.byte(mode | reg | 4);
                        self.byte(0x20 | (base & 7));
                    }
                    Some((index, scale)) => {
                        debug_assert_ne!(index, RSP, "rsp is no index");
                        self.byte(mode | reg | 4);
                        self.byte(scale_bits(scale) | ((index & 7) << 3) | (base & 7));
                    }
                }
                if mode != 0 {
                    self.dword(disp);
                }
            }
            Mem::Vector { base, index, scale, disp } => {
                self.byte(0x80 | reg | 4);
                self.byte(scale_bits(scale) | ((index & 7) << 3) | (base & 7));
                self.dword(disp);
            }
        }
    }

    /// A vector instruction: `reg` is the ModRM register (a vector or a mask), `second` the one in
    /// the prefix (0 where there is none).
    #[allow(clippy::too_many_arguments, reason = "the fields of one encoding")]
    pub(crate) fn evex(
        &mut self,
        enc: Enc,
        length: Length,
        reg: u8,
        second: u8,
        rm: Rm,
        mask: Mask,
        immediate: Option<u8>,
    ) {
        let (b, x, high_index, broadcast) = match rm {
            Rm::Vector(v) => (v >> 3 & 1, v >> 4 & 1, second >> 4 & 1, 0),
            Rm::Gpr(g) => (g >> 3 & 1, 0, second >> 4 & 1, 0),
            Rm::Mem(mem) | Rm::Broadcast(mem) => {
                let bit = u8::from(matches!(rm, Rm::Broadcast(_)));
                match mem {
                    Mem::Pool(_) => (0, 0, second >> 4 & 1, bit),
                    Mem::Base { base, index, .. } => {
                        let x = index.map_or(0, |(i, _)| i >> 3 & 1);
                        (base >> 3 & 1, x, second >> 4 & 1, bit)
                    }
                    Mem::Vector { base, index, .. } => {
                        (base >> 3 & 1, index >> 3 & 1, index >> 4 & 1, bit)
                    }
                }
            }
        };
        self.byte(0x62);
        let r = reg >> 3 & 1;
        let r_high = reg >> 4 & 1;
        self.byte((r ^ 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | (r_high ^ 1) << 4 | enc.map);
        self.byte(u8::from(enc.wide) << 7 | (!second & 15) << 3 | 4 | enc.prefix);
        self.byte(
            u8::from(mask.zero) << 7
                | (length as u8) << 5
                | broadcast << 4
                | (high_index ^ 1) << 3
                | mask.k,
        );
        self.byte(enc.opcode);
        match rm {
            Rm::Vector(v) => self.byte(0xc0 | (reg & 7) << 3 | (v & 7)),
            Rm::Gpr(g) => self.byte(0xc0 | (reg & 7) << 3 | (g & 7)),
            Rm::Mem(mem) | Rm::Broadcast(mem) => {
                self.memory(reg, mem, usize::from(immediate.is_some()));
            }
        }
        if let Some(immediate) = immediate {
            self.byte(immediate);
        }
    }

    /// A mask instruction `opcode reg, second, rm` on 16 bits.
    fn mask(&mut self, opcode: u8, reg: u8, second: u8, rm: u8, long: bool) {
        self.byte(0xc5);
        self.byte(0x80 | (!second & 15) << 3 | u8::from(long) << 2);
        self.byte(opcode);
        self.byte(0xc0 | (reg & 7) << 3 | (rm & 7));
    }

    /// `to = a op b`, with `op` the opcode: 41 and, 42 and-not (of a), 45 or, 46 xnor, 47 xor.
    pub(crate) fn mask_binary(&mut self, opcode: u8, to: u8, a: u8, b: u8) {
        self.mask(opcode, to, a, b, true);
    }

    pub(crate) fn mask_not(&mut self, to: u8, from: u8) {
        self.mask(0x44, to, 0, from, false);
    }

    pub(crate) fn mask_move(&mut self, to: u8, from: u8) {
        self.mask(0x90, to, 0, from, false);
    }

    /// The mask's 16 bits in a general register below 8.
    pub(crate) fn mask_to_gpr(&mut self, to: Gpr, from: u8) {
        self.mask(0x93, to, 0, from, false);
    }

    /// The low 16 bits of a general register below 8.
    pub(crate) fn mask_from_gpr(&mut self, to: u8, from: Gpr) {
        self.mask(0x92, to, 0, from, false);
    }

    pub(crate) fn mask_load(&mut self, to: u8, mem: Mem) {
        self.code.extend_from_slice(&[0xc5, 0xf8, 0x90]);
        self.memory(to, mem, 0);
    }

    pub(crate) fn mask_store(&mut self, mem: Mem, from: u8) {
        self.code.extend_from_slice(&[0xc5, 0xf8, 0x91]);
        self.memory(from, mem, 0);
    }

    // ---- general registers, 64 bits unless the name says otherwise

    fn rex(&mut self, wide: bool, reg: u8, rm: Rm, force: bool) {
        let (x, b) = match rm {
            Rm::Vector(v) | Rm::Gpr(v) => (0, v >> 3 & 1),
            Rm::Mem(Mem::Base { base, index, .. })
            | Rm::Broadcast(Mem::Base { base, index, .. }) => {
                (index.map_or(0, |(i, _)| i >> 3 & 1), base >> 3 & 1)
            }
            Rm::Mem(_) | Rm::Broadcast(_) => (0, 0),
        };
        let byte = 0x40 | u8::from(wide) << 3 | (reg >> 3 & 1) << 2 | x << 1 | b;
        if byte != 0x40 || force {
            self.byte(byte);
        }
    }

    fn general(&mut self, wide: bool, opcode: &[u8], reg: u8, rm: Rm, tail: usize) {
        self.rex(wide, reg, rm, false);
        self.code.extend_from_slice(opcode);
        match rm {
            Rm::Vector(v) | Rm::Gpr(v) => self.byte(0xc0 | (reg & 7) << 3 | (v & 7)),
            Rm::Mem(mem) | Rm::Broadcast(mem) => self.memory(reg, mem, tail),
        }
    }

    pub(crate) fn mov(&mut self, to: Gpr, from: Gpr) {
        if to != from {
            self.general(true, &[0x8b], to, Rm::Gpr(from), 0);
        }
    }

    pub(crate) fn mov_imm(&mut self, to: Gpr, value: i64) {
        if let Ok(small) = i32::try_from(value) {
            self.general(true, &[0xc7], 0, Rm::Gpr(to), 4);
            self.dword(small);
        } else {
            self.rex(true, 0, Rm::Gpr(to), false);
            self.byte(0xb8 | (to & 7));
            self.code.extend_from_slice(&value.to_le_bytes());
        }
    }

    pub(crate) fn load(&mut self, to: Gpr, mem: Mem) {
        self.general(true, &[0x8b], to, Rm::Mem(mem), 0);
    }

    pub(crate) fn store(&mut self, mem: Mem, from: Gpr) {
        self.general(true, &[0x89], from, Rm::Mem(mem), 0);
    }

    /// Loads 1, 2 or 4 bytes, zero extended.
    pub(crate) fn load_narrow(&mut self, bytes: u8, to: Gpr, mem: Mem) {
        let opcode: &[u8] = match bytes {
            1 => &[0x0f, 0xb6],
            2 => &[0x0f, 0xb7],
            _ => &[0x8b],
        };
        self.general(false, opcode, to, Rm::Mem(mem), 0);
    }

    /// Stores the low 1, 2 or 4 bytes.
    pub(crate) fn store_narrow(&mut self, bytes: u8, mem: Mem, from: Gpr) {
        if bytes == 2 {
            self.byte(0x66);
        }
        self.rex(false, from, Rm::Mem(mem), bytes == 1);
        self.byte(if bytes == 1 { 0x88 } else { 0x89 });
        self.memory(from, mem, 0);
    }

    pub(crate) fn lea(&mut self, to: Gpr, mem: Mem) {
        self.general(true, &[0x8d], to, Rm::Mem(mem), 0);
    }

    pub(crate) fn add(&mut self, to: Gpr, from: Rm) {
        self.general(true, &[0x03], to, from, 0);
    }

    pub(crate) fn sub(&mut self, to: Gpr, from: Rm) {
        self.general(true, &[0x2b], to, from, 0);
    }

    pub(crate) fn and(&mut self, to: Gpr, from: Rm) {
        self.general(true, &[0x23], to, from, 0);
    }

    pub(crate) fn xor(&mut self, to: Gpr, from: Rm) {
        self.general(true, &[0x33], to, from, 0);
    }

    pub(crate) fn imul(&mut self, to: Gpr, from: Rm) {
        self.general(true, &[0x0f, 0xaf], to, from, 0);
    }

    pub(crate) fn imul_imm(&mut self, to: Gpr, from: Gpr, value: i32) {
        self.general(true, &[0x69], to, Rm::Gpr(from), 4);
        self.dword(value);
    }

    /// An operation with an immediate: 0 add, 4 and, 5 sub, 7 compare.
    pub(crate) fn imm(&mut self, extension: u8, to: Gpr, value: i32) {
        self.general(true, &[0x81], extension, Rm::Gpr(to), 4);
        self.dword(value);
    }

    /// A shift by an immediate: 4 left, 5 right, 7 right with the sign.
    pub(crate) fn shift(&mut self, extension: u8, to: Gpr, by: u8) {
        self.general(true, &[0xc1], extension, Rm::Gpr(to), 1);
        self.byte(by);
    }

    pub(crate) fn neg(&mut self, to: Gpr) {
        self.general(true, &[0xf7], 3, Rm::Gpr(to), 0);
    }

    /// `rax`, `rdx` become quotient and remainder of `rax` by a register, both signed.
    pub(crate) fn divide_rax(&mut self, by: Gpr) {
        self.code.extend_from_slice(&[0x48, 0x99]);
        self.general(true, &[0xf7], 7, Rm::Gpr(by), 0);
    }

    /// As [`Self::divide_rax`], unsigned.
    pub(crate) fn divide_rax_unsigned(&mut self, by: Gpr) {
        self.code.extend_from_slice(&[0x31, 0xd2]);
        self.general(true, &[0xf7], 6, Rm::Gpr(by), 0);
    }

    pub(crate) fn cmp(&mut self, a: Gpr, b: Rm) {
        self.general(true, &[0x3b], a, b, 0);
    }

    pub(crate) fn test_bit(&mut self, a: Gpr, mask: i32) {
        self.general(false, &[0xf7], 0, Rm::Gpr(a), 4);
        self.dword(mask);
    }

    pub(crate) fn cmov(&mut self, cond: Cond, to: Gpr, from: Gpr) {
        self.general(true, &[0x0f, 0x40 | cond as u8], to, Rm::Gpr(from), 0);
    }

    /// 1 or 0 in the whole register (below 4).
    pub(crate) fn set(&mut self, cond: Cond, to: Gpr) {
        self.general(false, &[0x0f, 0x90 | cond as u8], 0, Rm::Gpr(to), 0);
        self.general(false, &[0x0f, 0xb6], to, Rm::Gpr(to), 0);
    }

    pub(crate) fn jump(&mut self, label: Label) {
        self.byte(0xe9);
        self.jumps.push((self.code.len(), label));
        self.dword(0);
    }

    pub(crate) fn jump_if(&mut self, cond: Cond, label: Label) {
        self.byte(0x0f);
        self.byte(0x80 | cond as u8);
        self.jumps.push((self.code.len(), label));
        self.dword(0);
    }

    /// A short jump over what follows if the last test gave zero; to be bound.
    pub(crate) fn short_skip(&mut self) -> usize {
        self.byte(0x74);
        self.byte(0);
        self.code.len()
    }

    /// A short jump over what follows; to be bound.
    pub(crate) fn short_jump(&mut self) -> usize {
        self.byte(0xeb);
        self.byte(0);
        self.code.len()
    }

    /// Ends what a short jump skips.
    pub(crate) fn bind_skip(&mut self, from: usize) {
        let distance = self.code.len() - from;
        self.code[from - 1] = u8::try_from(distance).expect("a short distance");
    }

    pub(crate) fn push(&mut self, reg: Gpr) {
        if reg >= 8 {
            self.byte(0x41);
        }
        self.byte(0x50 | (reg & 7));
    }

    pub(crate) fn pop(&mut self, reg: Gpr) {
        if reg >= 8 {
            self.byte(0x41);
        }
        self.byte(0x58 | (reg & 7));
    }

    pub(crate) fn vzeroupper(&mut self) {
        self.code.extend_from_slice(&[0xc5, 0xf8, 0x77]);
    }

    pub(crate) fn ret(&mut self) {
        self.byte(0xc3);
    }

    /// No operation, up to a multiple of 32 bytes.
    pub(crate) fn align_loop(&mut self) {
        let mut missing = self.code.len().next_multiple_of(32) - self.code.len();
        while missing > 0 {
            let now = missing.min(8);
            let bytes: &[u8] = match now {
                1 => &[0x90],
                2 => &[0x66, 0x90],
                3 => &[0x0f, 0x1f, 0x00],
                4 => &[0x0f, 0x1f, 0x40, 0x00],
                5 => &[0x0f, 0x1f, 0x44, 0x00, 0x00],
                6 => &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
                7 => &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
                _ => &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
            };
            self.code.extend_from_slice(bytes);
            missing -= now;
        }
    }
}

fn scale_bits(scale: u8) -> u8 {
    match scale {
        1 => 0x00,
        2 => 0x40,
        4 => 0x80,
        8 => 0xc0,
        _ => unreachable!("a scale is 1, 2, 4 or 8"),
    }
}
