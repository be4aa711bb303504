//! Accesses whose lanes stand in reverse or a few elements apart (the parts of complex numbers,
//! coordinates, colours): whole vectors and permutations in place of gathers and scatters.

use super::code::{Ins, Src, VReg};
use super::encode::{Enc, enc};
use super::lower::{Chunks, Lower, Parts};
use jaxrs_kernel::{DType, ParamId, Reg, RegType};

/// `vpermd`, `vpermq`: lanes of one vector by number.
const PERMUTE32: Enc = enc(2, 1, 0x36, false);
const PERMUTE64: Enc = enc(2, 1, 0x36, true);
/// `vpermt2d`, `vpermt2q`: lanes of two vectors by number.
const PERMUTE2_32: Enc = enc(2, 1, 0x7e, false);
const PERMUTE2_64: Enc = enc(2, 1, 0x7e, true);

/// Whether lanes so far apart are handled here.
pub(super) fn is_near(step: i64) -> bool {
    matches!(step, -1 | 2..=4)
}

/// Stores that may be written together with others into the elements between their own.
pub(super) struct Pending {
    param: ParamId,
    /// Without the constant.
    parts: Parts,
    /// The constant and the lanes' vectors of each store.
    stores: Vec<(i64, Chunks)>,
}

impl Lower<'_> {
    /// Lanes `-1` or 2 to 4 elements apart, the first one `more` bytes after the address.
    pub(super) fn load_near(
        &mut self,
        dtype: DType,
        param: ParamId,
        parts: &Parts,
        more: i64,
    ) -> VReg {
        // Truth values as bytes until they are in their lanes.
        let raw = if dtype == DType::I1 { DType::U8 } else { dtype };
        let (size, lanes, step) = (dtype.size() as i64, self.cx.lanes, parts.step);
        let value = if step == -1 {
            let at = self.address(param, parts, more - (lanes - 1) * size);
            let from = self.load_contiguous(raw, at, None);
            self.permute(dtype.reg(), from, |lane| lanes - 1 - lane)
        } else {
            let mut value = None;
            for part in 0..step {
                let at = self.address(param, parts, more + part * lanes * size);
                // The last vector's last lanes may be outside of the buffer.
                let mask = (part + 1 == step).then(|| self.lanes_below(lanes - (step - 1)));
                let next = self.load_contiguous(raw, at, mask);
                value = Some(match value {
                    None => next,
                    Some(before) => {
                        let first = part * lanes;
                        self.permute2(dtype.reg(), before, next, |lane| {
                            let place = lane * step;
                            let known = if part == 1 { place } else { lane };
                            if place >= first { lanes + place - first } else { known }
                        })
                    }
                });
            }
            value.expect("there are at least two parts")
        };
        if dtype == DType::I1 { self.not_zero(value) } else { value }
    }

    /// A mask of the first lanes.
    fn lanes_below(&mut self, count: i64) -> VReg {
        let (bits, to) = (self.general(), self.mask_reg());
        self.put(Ins::Immediate { to: bits, value: (1 << count) - 1 });
        self.put(Ins::MaskFromGeneral { to, from: bits });
        to
    }

    fn lane_numbers(&mut self, ty: RegType, number: impl Fn(i64) -> i64) -> Src {
        let mut bytes = [0; 64];
        let size = if ty.bits() == 64 { 8 } else { 4 };
        for (lane, out) in bytes.chunks_exact_mut(size).enumerate() {
            let number = if (lane as i64) < self.cx.lanes { number(lane as i64) } else { 0 };
            out.copy_from_slice(&number.to_le_bytes()[..size]);
        }
        self.whole(&bytes)
    }

    /// Lanes of a vector, by the number of the lane that each comes from.
    fn permute(&mut self, ty: RegType, from: VReg, number: impl Fn(i64) -> i64) -> VReg {
        let numbers = self.lane_numbers(ty, number);
        let (to, length) = (self.vector(), self.length(ty));
        let enc = if ty.bits() == 64 { PERMUTE64 } else { PERMUTE32 };
        let (a, b) = (Some(numbers), Src::Reg(from));
        self.put(Ins::Op { enc, length, to, a, b, imm: None, mask: None, merge: None });
        to
    }

    /// Lanes of two vectors, numbered through.
    fn permute2(
        &mut self,
        ty: RegType,
        first: VReg,
        second: VReg,
        number: impl Fn(i64) -> i64,
    ) -> VReg {
        let numbers = self.lane_numbers(ty, number);
        let (to, length) = (self.vector(), self.length(ty));
        let enc = if ty.bits() == 64 { PERMUTE2_64 } else { PERMUTE2_32 };
        let (a, b, merge) = (Some(numbers), Src::Reg(second), Some(first));
        self.put(Ins::Op { enc, length, to, a, b, imm: None, mask: None, merge });
        to
    }

    /// Writes lanes `-1` or 2 to 4 elements apart, perhaps later, with what belongs in between.
    pub(super) fn store_near(&mut self, param: ParamId, mut parts: Parts, value: Reg) {
        let chunks: Chunks =
            (0..self.cx.chunks).map(|chunk| self.lanes_vector(value, chunk)).collect();
        let (step, constant) = (parts.step, parts.constant);
        parts.constant = 0;
        let together = self.pending.as_ref().is_some_and(|p| {
            let fits = |&(at, _): &(i64, Chunks)| at != constant && (at - constant).abs() < step;
            p.param == param && p.parts == parts && p.stores.iter().all(fits)
        });
        if !together {
            self.flush_stores();
            self.pending = Some(Pending { param, parts, stores: Vec::new() });
        }
        let pending = self.pending.as_mut().expect("set above");
        pending.stores.push((constant, chunks));
        if step == -1 || pending.stores.len() as i64 == step {
            self.flush_stores();
        }
    }

    /// Writes what is waiting.
    pub(super) fn flush_stores(&mut self) {
        let Some(Pending { param, mut parts, mut stores }) = self.pending.take() else { return };
        stores.sort_by_key(|s| s.0);
        let dtype = self.kernel.params[param].dtype;
        let (step, size) = (parts.step, dtype.size() as i64);
        let all = stores.len() as i64 == step;
        for chunk in 0..stores[0].1.len() {
            let more = chunk as i64 * self.cx.lanes * step * size;
            if all {
                parts.constant = stores[0].0;
                let values: Vec<VReg> = stores.iter().map(|s| s.1[chunk]).collect();
                self.store_interleaved(param, &parts, more, &values);
                continue;
            }
            for (constant, chunks) in &stores {
                parts.constant = *constant;
                self.store_apart(param, &parts, more, chunks[chunk]);
            }
        }
    }

    fn store_interleaved(&mut self, param: ParamId, parts: &Parts, more: i64, values: &[VReg]) {
        let dtype = self.kernel.params[param].dtype;
        let (lanes, step, ty) = (self.cx.lanes, parts.step, dtype.reg());
        for part in 0..step {
            let mut value = values[0];
            for (n, &next) in values.iter().enumerate().skip(1) {
                value = self.permute2(ty, value, next, |lane| {
                    let place = part * lanes + lane;
                    let known = if n == 1 { place / step } else { lane };
                    if place % step == n as i64 { lanes + place / step } else { known }
                });
            }
            let at = self.address(param, parts, more + part * lanes * dtype.size() as i64);
            self.store_vector(dtype, at, None, value);
        }
    }

    fn store_apart(&mut self, param: ParamId, parts: &Parts, more: i64, value: VReg) {
        let dtype = self.kernel.params[param].dtype;
        let (lanes, step, size) = (self.cx.lanes, parts.step, dtype.size() as i64);
        if step == -1 {
            let value = self.permute(dtype.reg(), value, |lane| lanes - 1 - lane);
            let at = self.address(param, parts, more - (lanes - 1) * size);
            self.store_vector(dtype, at, None, value);
            return;
        }
        for part in 0..step {
            let moved = self.permute(dtype.reg(), value, |lane| (part * lanes + lane) / step);
            let on = (0..lanes).filter(|lane| (part * lanes + lane) % step == 0);
            let (bits, mask) = (self.general(), self.mask_reg());
            self.put(Ins::Immediate { to: bits, value: on.map(|lane| 1 << lane).sum() });
            self.put(Ins::MaskFromGeneral { to: mask, from: bits });
            let at = self.address(param, parts, more + part * lanes * size);
            self.store_vector(dtype, at, Some(mask), moved);
        }
    }
}
