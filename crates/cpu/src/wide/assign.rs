//! Gives virtual registers machine registers, or places in the frame where there are too few:
//! linear scan over one live range a register.

use super::code::{Class, Code, Ins, VReg};
use super::encode::{Gpr, Label};

/// Where a virtual register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A machine register of its class.
    Register(u8),
    /// Bytes of the frame from here on.
    Frame(i32),
    /// Never used.
    Nowhere,
}

/// The result.
pub(crate) struct Places {
    pub(crate) of: Vec<Place>,
    /// Bytes of the frame.
    pub(crate) frame: i32,
    /// The general registers in use, a bit each.
    pub(crate) generals: u16,
}

/// Vector registers to give away; the rest serve as temporaries of single instructions.
const VECTORS: u8 = 29;
/// Masks 1 to 5; 0 means no mask, 6 and 7 are temporaries.
const MASKS: [u8; 5] = [1, 2, 3, 4, 5];
/// All but the stack pointer and the temporaries `rax`, `rcx`, `rdx`, `r11`.
const GENERALS: [Gpr; 11] = [6, 7, 8, 9, 10, 3, 5, 12, 13, 14, 15];

struct Range {
    reg: VReg,
    start: u32,
    end: u32,
    /// Expected uses.
    weight: f64,
}

/// Assigns places; the frame's first `reserved` bytes are left alone.
pub(crate) fn assign(code: &Code, reserved: i32) -> Places {
    let ranges = ranges(code);
    let mut of = vec![Place::Nowhere; code.classes.len()];
    let mut frame = reserved;
    for class in [Class::General, Class::Mask, Class::Vector] {
        let free: Vec<u8> = match class {
            Class::Vector => (0..VECTORS).rev().collect(),
            Class::Mask => MASKS.iter().rev().copied().collect(),
            Class::General => GENERALS.iter().rev().copied().collect(),
        };
        let bytes = if class == Class::Vector { 64 } else { 8 };
        frame = (frame + bytes - 1) & -bytes;
        let of_class = ranges.iter().filter(|r| code.classes[r.reg.0 as usize] == class);
        scan(of_class, free, bytes, &mut of, &mut frame);
    }
    let mut generals = 0;
    for (place, class) in of.iter().zip(&code.classes) {
        if let (Place::Register(register), Class::General) = (place, class) {
            generals |= 1 << register;
        }
    }
    Places { of, frame, generals }
}

fn scan<'a>(
    ranges: impl Iterator<Item = &'a Range>,
    mut free: Vec<u8>,
    bytes: i32,
    of: &mut [Place],
    frame: &mut i32,
) {
    let mut active: Vec<(&Range, u8)> = Vec::new();
    // Places in the frame, with the end of their last tenant.
    let mut slots: Vec<(i32, u32)> = Vec::new();
    let mut slot = |range: &Range, frame: &mut i32| {
        if let Some(found) = slots.iter_mut().find(|s| s.1 <= range.start) {
            found.1 = range.end;
            return found.0;
        }
        slots.push((*frame, range.end));
        *frame += bytes;
        *frame - bytes
    };
    for range in ranges {
        active.retain(|&(other, register)| {
            let lives = other.end > range.start;
            if !lives {
                free.push(register);
            }
            lives
        });
        if let Some(register) = free.pop() {
            of[range.reg.0 as usize] = Place::Register(register);
            active.push((range, register));
            continue;
        }
        let density = |r: &Range| r.weight / f64::from(r.end - r.start + 1);
        let cheapest = active
            .iter()
            .enumerate()
            .min_by(|a, b| density(a.1.0).total_cmp(&density(b.1.0)))
            .map(|(n, _)| n);
        match cheapest {
            Some(n) if density(active[n].0) < density(range) => {
                let (other, register) = active[n];
                // It lived before this range began, so it takes no slot that others had.
                of[other.reg.0 as usize] = Place::Frame(*frame);
                *frame += bytes;
                of[range.reg.0 as usize] = Place::Register(register);
                active[n] = (range, register);
            }
            _ => of[range.reg.0 as usize] = Place::Frame(slot(range, frame)),
        }
    }
}

/// Live ranges in order of their starts.
fn ranges(code: &Code) -> Vec<Range> {
    let loops = loops(code);
    let mut ranges: Vec<Range> = (0..code.classes.len())
        .map(|n| Range { reg: VReg(n as u32), start: u32::MAX, end: 0, weight: 0.0 })
        .collect();
    // The loops around the position, outermost first.
    let mut open: Vec<(u32, u32)> = Vec::new();
    let mut next = 0;
    for (at, ins) in code.instructions.iter().enumerate() {
        let at = at as u32;
        while next < loops.len() && loops[next].0 == at {
            open.push(loops[next]);
            next += 1;
        }
        let weight = 8f64.powi(open.len().min(6) as i32);
        ins.visit(&mut |reg, written| {
            let range = &mut ranges[reg.0 as usize];
            range.start = range.start.min(at);
            // Two registers written at once differ, used or not.
            range.end = range.end.max(at + u32::from(written));
            range.weight += weight;
            // Live into a loop: live to its end.
            if let Some(outer) = open.iter().find(|l| l.0 > range.start) {
                range.end = range.end.max(outer.1);
            }
        });
        while open.last().is_some_and(|l| l.1 == at) {
            open.pop();
        }
    }
    ranges.retain(|r| r.start != u32::MAX);
    ranges.sort_by_key(|r| r.start);
    ranges
}

/// First and last instruction of each loop, outer loops first.
fn loops(code: &Code) -> Vec<(u32, u32)> {
    let mut starts: Vec<Option<u32>> = vec![None; code.labels as usize];
    let mut ends: Vec<u32> = vec![0; code.labels as usize];
    for (at, ins) in code.instructions.iter().enumerate() {
        let at = at as u32;
        let mut jump = |label: &Label| ends[label.0 as usize] = at;
        match ins {
            Ins::Bind { label, is_loop: true } => starts[label.0 as usize] = Some(at),
            Ins::Jump { label }
            | Ins::CompareJump { label, .. }
            | Ins::CompareJumpImm { label, .. }
            | Ins::JumpUnless { label, .. } => jump(label),
            _ => {}
        }
    }
    let mut loops: Vec<(u32, u32)> =
        starts.iter().zip(&ends).filter_map(|(start, &end)| Some(((*start)?, end))).collect();
    loops.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
    loops
}
