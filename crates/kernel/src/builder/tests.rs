use super::{Guard, KernelBuilder, LoopOptions, branch, parallel, reduce};
use crate::interp::run;
use crate::kernel::{Access, Kernel, LoopKind, Stmt};
use crate::verify::verify;
use crate::{Affine, BinaryOp, DType, ParamId, RegType};

const PLAIN: LoopOptions = LoopOptions { ranged: false, split: false };

fn start(read: u64, write: u64) -> (KernelBuilder, ParamId, ParamId) {
    let mut b = KernelBuilder::new("test");
    let x = b.param(DType::I32, read, Access::Read);
    let y = b.param(DType::I32, write, Access::Write);
    (b, x, y)
}

/// The result for the operand `0, 1, 2, ...`.
fn ran(kernel: &Kernel) -> Vec<i32> {
    verify(kernel).unwrap_or_else(|message| panic!("{message}\n{kernel}"));
    let lens: Vec<u64> = kernel.params.values().map(|p| p.len).collect();
    let operand = (0..lens[0] as i32).flat_map(i32::to_le_bytes).collect();
    let mut buffers = vec![operand, vec![0; 4 * lens[1] as usize]];
    run(kernel, &mut buffers, 0, i64::MAX);
    let words = buffers[1].chunks_exact(4);
    words.map(|w| i32::from_le_bytes(w.try_into().expect("4 bytes"))).collect()
}

#[test]
fn equal_instructions_are_one_and_leave_the_loop() {
    let (mut b, x, y) = start(4, 4);
    parallel(&mut b, 4, PLAIN, |b, i| {
        let first = b.load(x, Affine::constant(3));
        let again = b.load(x, Affine::constant(3));
        assert_eq!(first, again);
        let own = b.load(x, i.clone());
        let sum = b.binary(BinaryOp::Add, first, own);
        b.store(y, i.clone(), sum);
    });
    let kernel = b.finish();
    assert!(matches!(kernel.body.stmts[..], [Stmt::Let(_), Stmt::Loop(_)]), "{kernel}");
    assert_eq!(ran(&kernel), [3, 4, 5, 6]);
}

#[test]
fn split_loops_decide_their_guards() {
    let (mut b, x, y) = start(4, 8);
    let split = LoopOptions { ranged: false, split: true };
    parallel(&mut b, 8, split, |b, i| {
        let at = i.offset(-2);
        let guard = b.in_range(&at, 0, 4);
        let value =
            branch(b, guard, |b| vec![b.load(x, at.clone())], |b| vec![b.int(RegType::I32, -1)]);
        b.store(y, i.clone(), value[0]);
    });
    let kernel = b.finish();
    let branches = kernel.to_string().matches(" if ").count();
    assert_eq!(branches, 0, "{kernel}");
    assert_eq!(ran(&kernel), [-1, -1, 0, 1, 2, 3, -1, -1]);
}

#[test]
fn reductions_carry_values() {
    let (mut b, x, y) = start(12, 3);
    parallel(&mut b, 3, PLAIN, |b, i| {
        let zero = b.int(RegType::I32, 0);
        let carries = [(zero, Some(BinaryOp::Add))];
        let sum = reduce(b, 4, PLAIN, LoopKind::Reduce, &carries, |b, j, carry| {
            let value = b.load(x, i.scale(4).add(j));
            vec![b.binary(BinaryOp::Add, carry[0], value)]
        });
        b.store(y, i.clone(), sum[0]);
    });
    assert_eq!(ran(&b.finish()), [6, 22, 38]);
}

#[test]
fn indices_are_simplified() {
    let (mut b, x, y) = start(24, 24);
    parallel(&mut b, 4, PLAIN, |b, i| {
        parallel(b, 6, PLAIN, |b, j| {
            let at = i.scale(6).add(j);
            assert_eq!(b.floor_div(&at, 6), *i);
            assert_eq!(b.modulo(&at, 6), *j);
            let (whole, rest) = (b.floor_div(&at, 4), b.modulo(&at, 4));
            let together = whole.scale(4).add(&rest);
            assert_eq!(b.recombined(together), at);
            assert_eq!(b.in_range(&at, 0, 24), Guard::Always);
            assert_eq!(b.in_range(&at, 24, 30), Guard::Never);
            let value = b.load(x, at.clone());
            b.store(y, at, value);
        });
    });
    assert_eq!(ran(&b.finish()), (0..24).collect::<Vec<i32>>());
}

#[test]
fn a_split_index_put_together_is_itself() {
    let mut b = KernelBuilder::new("test");
    let (x, _) = b.open_loop((0, 24), false, LoopKind::Parallel, &[]);
    let (y, _) = b.open_loop((0, 5), false, LoopKind::Parallel, &[]);
    for by in [2, 4, 6, 7] {
        let at = x.scale(10).add(&y.scale(2)).offset(3);
        let (whole, rest) = (b.floor_div(&at, by), b.modulo(&at, by));
        assert_eq!(b.recombined(whole.scale(by).add(&rest)), at, "by {by}");
        let other = whole.scale(by + 1).add(&rest);
        assert_eq!(b.recombined(other.clone()), other);
    }
}
