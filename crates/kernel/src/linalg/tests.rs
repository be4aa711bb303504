//! Every routine against what its results must satisfy.

use super::*;

type Big<S> = Vec<Vec<S>>;

/// Arbitrary elements about 1.
fn random<S: Scalar>(count: usize, seed: u64) -> Vec<S> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
    };
    (0..count).map(|_| S::new(next(), next())).collect()
}

fn matrix<S: Scalar>(elements: &[S], rows: usize, columns: usize) -> Big<S> {
    (0..rows).map(|r| elements[r * columns..][..columns].to_vec()).collect()
}

fn times<S: Scalar>(a: &Big<S>, b: &Big<S>) -> Big<S> {
    let columns = b.first().map_or(0, Vec::len);
    let product = |row: &Vec<S>, column: usize| {
        row.iter().zip(b).fold(S::default(), |sum, (&x, y)| sum + x * y[column])
    };
    a.iter().map(|row| (0..columns).map(|c| product(row, c)).collect()).collect()
}

fn adjoint<S: Scalar>(a: &Big<S>, columns: usize) -> Big<S> {
    (0..columns).map(|c| a.iter().map(|row| row[c].conj()).collect()).collect()
}

fn unit<S: Scalar>(size: usize) -> Big<S> {
    let one = |r: usize, c: usize| if r == c { S::real(1.0) } else { S::default() };
    (0..size).map(|r| (0..size).map(|c| one(r, c)).collect()).collect()
}

#[track_caller]
fn near<S: Scalar>(a: &Big<S>, b: &Big<S>, scale: f64, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a.len(), b.len(), "{what}");
        for (&a, &b) in a.iter().zip(b) {
            let distance = (a - b).size();
            assert!(distance <= 40.0 * S::EPSILON * scale.max(1.0), "{what}: {a:?}, {b:?}");
        }
    }
}

/// The memory of a call.
struct Buffers<S: Scalar> {
    beside: Vec<S>,
    first: Vec<S>,
    more: [Vec<S>; 2],
    values: Vec<S::Part>,
    pivots: Vec<i32>,
    info: i32,
}

fn run<S: Scalar>(
    routine: Routine,
    [rows, columns]: [usize; 2],
    beside: &[S],
    first: &[S],
) -> Buffers<S> {
    let odd = |count: usize| vec![S::real(7.0); count];
    let len = |place| routine.len(place, [rows, columns]);
    let short = len(Place::Values);
    let mut b = Buffers {
        beside: beside.to_vec(),
        first: first.to_vec(),
        more: [odd(len(Place::More(0))), odd(len(Place::More(1)))],
        values: vec![S::Part::default(); short],
        pivots: vec![-5; short],
        info: -5,
    };
    let [elements, wide] = routine.memory([rows, columns]);
    let (mut elements, mut wide) = (odd(elements), vec![7.0; wide]);
    let [left, right] = &mut b.more;
    let call = Call {
        shape: [rows, columns],
        beside: cells(&mut b.beside),
        first: cells(&mut b.first),
        more: [cells(left), cells(right)],
        values: cells(&mut b.values),
        pivots: cells(&mut b.pivots),
        info: Some(&cells(std::slice::from_mut(&mut b.info))[0]),
    };
    routine.run(Plain, &call, Memory { elements: &mut elements, wide: &mut wide });
    b
}

const SIZES: &[usize] = &[0, 1, 2, 3, 7, 16, 17, 33, 70];
const SHAPES: &[[usize; 2]] =
    &[[0, 3], [3, 0], [1, 1], [1, 4], [4, 1], [5, 3], [3, 5], [6, 6], [40, 17], [17, 40], [50, 50]];

/// A positive definite matrix.
fn definite<S: Scalar>(size: usize, seed: u64) -> Big<S> {
    let a = matrix(&random::<S>(size * size, seed), size, size);
    let mut product = times(&a, &adjoint(&a, size));
    (0..size).for_each(|n| product[n][n] += S::real(1.0));
    product
}

fn triangle<S: Scalar>(a: &Big<S>, lower: bool, unit: bool) -> Big<S> {
    let keep = |r: usize, c: usize| {
        if unit && r == c {
            S::real(1.0)
        } else if (lower && c <= r) || (!lower && c >= r) {
            a[r][c]
        } else {
            S::default()
        }
    };
    (0..a.len()).map(|r| (0..a[r].len()).map(|c| keep(r, c)).collect()).collect()
}

fn flat<S: Scalar>(a: &Big<S>) -> Vec<S> {
    a.concat()
}

fn cholesky<S: Scalar>() {
    for &size in SIZES {
        for lower in [true, false] {
            let a = definite::<S>(size, size as u64 + 3);
            // What stands in the other triangle has no meaning.
            let mut input = triangle(&a, lower, false);
            for row in 0..size {
                for column in 0..size {
                    if (column > row) == lower && column != row {
                        input[row][column] = S::nan();
                    }
                }
            }
            let routine = Routine::Cholesky { lower, info: true };
            let b = run(routine, [size, size], &[], &flat(&input));
            let l = matrix(&b.first, size, size);
            assert_eq!(b.info, 0);
            let product =
                if lower { times(&l, &adjoint(&l, size)) } else { times(&adjoint(&l, size), &l) };
            near(&product, &a, size as f64, "l l^H");
            near(&triangle(&l, lower, false), &l, 0.0, "a triangle");
        }
        if size > 2 {
            let mut a = definite::<S>(size, 1);
            a[size - 2][size - 2] = S::real(-1.0);
            let routine = Routine::Cholesky { lower: true, info: true };
            let b = run(routine, [size, size], &[], &flat(&a));
            assert_eq!(b.info as usize, size - 1);
            assert!(b.first.iter().all(|x| x.re().is_nan()));
        }
    }
}

fn solve<S: Scalar>() {
    for size in [0, 1, 3, 16, 17, 45] {
        for others in [0, 1, 3, 20] {
            for number in 0..24 {
                let (left, lower, unit) = (number & 1 == 0, number & 2 == 0, number & 4 == 0);
                let turn = [Turn::None, Turn::Transpose, Turn::Adjoint][number / 8];
                let mut a = matrix(&random::<S>(size * size, 5), size, size);
                for row in 0..size {
                    for column in 0..size {
                        a[row][column] = a[row][column].over(S::real(size as f64));
                    }
                    a[row][row] += S::real(2.0);
                }
                let shape = if left { [size, others] } else { [others, size] };
                let right = random::<S>(size * others, 6);
                let routine = Routine::Solve(Solve { left, lower, unit, turn });
                let got = run(routine, shape, &flat(&a), &right);
                let x = matrix(&got.first, shape[0], shape[1]);
                let mut a = triangle(&a, lower, unit);
                if turn != Turn::None {
                    a = adjoint(&a, size);
                }
                if turn == Turn::Transpose {
                    a.iter_mut().flatten().for_each(|x| *x = x.conj());
                }
                let product = if left { times(&a, &x) } else { times(&x, &a) };
                let what = format!("{size} {others} {routine:?}");
                near(&product, &matrix(&right, shape[0], shape[1]), size as f64, &what);
            }
        }
    }
}

fn lu<S: Scalar>() {
    for &[rows, columns] in SHAPES {
        let short = rows.min(columns);
        let elements = random::<S>(rows * columns, 9);
        let b = run(Routine::Lu, [rows, columns], &[], &elements);
        assert_eq!(b.info, 0);
        let all = matrix(&b.first, rows, columns);
        let l: Big<S> = triangle(&all, true, true).iter().map(|r| r[..short].to_vec()).collect();
        let u: Big<S> = triangle(&all, false, false).into_iter().take(short).collect();
        let mut a = matrix(&elements, rows, columns);
        for (row, &pivot) in b.pivots.iter().enumerate() {
            a.swap(row, pivot as usize - 1);
        }
        near(&times(&l, &u), &a, rows as f64, "l u");
        assert!(flat(&l).iter().all(|x| x.rough_size() <= 2.0));
    }
    let b = run::<S>(Routine::Lu, [3, 3], &[], &[S::default(); 9]);
    assert_eq!((b.info, &b.pivots[..]), (1, &[1, 2, 3][..]));
}

fn qr<S: Scalar>() {
    for &[rows, columns] in SHAPES {
        let short = rows.min(columns);
        let elements = random::<S>(rows * columns, 11);
        let b = run(Routine::Qr, [rows, columns], &[], &elements);
        let r = triangle(&matrix(&b.first, rows, columns), false, false);
        assert!((0..short).all(|n| r[n][n].im() == 0.0));
        // As many columns of q as there are rows, for a tall matrix also as many as it has.
        for wide in [rows, short] {
            let mut packed: Big<S> = vec![vec![S::default(); wide]; rows];
            for row in 0..rows {
                for column in 0..short {
                    packed[row][column] = b.first[row * columns + column];
                }
            }
            let taus = &b.more[0][..short];
            let got = run(
                Routine::Reflections { count: short as u64 },
                [rows, wide],
                taus,
                &flat(&packed),
            );
            let q = matrix(&got.first, rows, wide);
            near(&times(&adjoint(&q, wide), &q), &unit(wide), rows as f64, "q^H q");
            let r: Big<S> = r.iter().take(wide).cloned().collect();
            near(&times(&q, &r), &matrix(&elements, rows, columns), rows as f64, "q r");
        }
    }
    // LAPACK's signs.
    let b = run(Routine::Qr, [2, 1], &[], &[S::real(3.0), S::real(4.0)]);
    near(&vec![b.first.clone()], &vec![vec![S::real(-5.0), S::real(0.5)]], 1.0, "packed");
    near(&vec![vec![b.more[0][0]]], &vec![vec![S::real(1.6)]], 1.0, "tau");
}

fn eigh<S: Scalar>() {
    for &size in SIZES {
        for (lower, rank) in [(true, size), (false, size), (true, size / 2), (true, 0)] {
            let part = matrix(&random::<S>(size * rank, 13), size, rank);
            let mut a = times(&part, &adjoint(&part, rank));
            if rank == 0 {
                a = vec![vec![S::default(); size]; size];
            }
            if rank == size {
                (0..size).for_each(|n| a[n][n] -= S::real(size as f64 / 3.0));
            }
            let input = triangle(&a, lower, false);
            let b = run(Routine::Eigh { lower }, [size, size], &[], &flat(&input));
            assert_eq!(b.info, 0);
            let v = matrix(&b.first, size, size);
            near(&times(&adjoint(&v, size), &v), &unit(size), size as f64, "v^H v");
            let mut scaled = v.clone();
            for row in &mut scaled {
                row.iter_mut().zip(&b.values).for_each(|(x, &w)| *x = x.times(w));
            }
            near(&times(&a, &v), &scaled, (size * size) as f64, "a v");
            assert!(b.values.windows(2).all(|w| w[0].wide() <= w[1].wide()));
        }
    }
    let bad = [S::real(1.0), S::nan(), S::nan(), S::real(1.0)];
    let b = run(Routine::Eigh { lower: true }, [2, 2], &[], &bad);
    assert!(b.info == 1 && b.first.iter().all(|x| x.re().is_nan()));
    // A diagonal keeps its values exactly, whatever their size.
    let tiny = [S::real(3e-30), S::default(), S::default(), S::real(1e-30)];
    let b = run(Routine::Eigh { lower: true }, [2, 2], &[], &tiny);
    assert!((b.values[0].wide() / 1e-30 - 1.0).abs() < 1e-6, "{:?}", b.values);
}

fn svd<S: Scalar>() {
    for &[rows, columns] in SHAPES {
        let short = rows.min(columns);
        for rank in [short, short / 2, 0] {
            let mut a = matrix(&random::<S>(rows * columns, 17), rows, columns);
            if rank < short {
                let left = matrix(&random::<S>(rows * rank, 18), rows, rank);
                let right = matrix(&random::<S>(rank * columns, 19), rank, columns);
                let zero = vec![vec![S::default(); columns]; rows];
                a = if rank == 0 { zero } else { times(&left, &right) };
            }
            let shape = [rows, columns];
            let of = |computed, full| Vectors { computed, full };
            let none =
                run(Routine::Svd { vectors: of(false, rank == short) }, shape, &[], &flat(&a));
            for vectors in [of(true, false), of(true, true)] {
                let b = run(Routine::Svd { vectors }, shape, &[], &flat(&a));
                assert_eq!(b.info, 0);
                let thin = !vectors.full;
                let counts = if thin { [short, short] } else { shape };
                let u = matrix(&b.more[0], rows, counts[0]);
                let vt = matrix(&b.more[1], counts[1], columns);
                let what = format!("{rows}x{columns} rank {rank} {vectors:?}");
                let size = rows.max(columns) as f64;
                near(&times(&adjoint(&u, counts[0]), &u), &unit(counts[0]), size, &what);
                near(&times(&vt, &adjoint(&vt, columns)), &unit(counts[1]), size, &what);
                let mut left: Big<S> = u.iter().map(|row| row[..short].to_vec()).collect();
                for row in &mut left {
                    row.iter_mut().zip(&b.values).for_each(|(x, &s)| *x = x.times(s));
                }
                let right: Big<S> = vt[..short].to_vec();
                if short > 0 {
                    near(&times(&left, &right), &a, size, &what);
                }
                assert!(b.values.windows(2).all(|w| w[0].wide() >= w[1].wide()), "{what}");
                for (x, y) in b.values.iter().zip(&none.values) {
                    assert!((x.wide() - y.wide()).abs() <= S::EPSILON * 40.0 * size, "{what}");
                }
            }
        }
    }
    let bad = [S::real(1.0), S::nan(), S::real(2.0), S::real(1.0)];
    let vectors = Vectors { computed: true, full: false };
    let b = run(Routine::Svd { vectors }, [2, 2], &[], &bad);
    assert!(b.info == 1 && b.values.iter().all(|x| x.wide().is_nan()));
}

macro_rules! every_type {
    ($($name:ident),*) => {$(
        mod $name {
            use super::Complex;
            #[test]
            fn f32() {
                super::$name::<f32>();
            }
            #[test]
            fn f64() {
                super::$name::<f64>();
            }
            #[test]
            fn c64() {
                super::$name::<Complex<f32>>();
            }
            #[test]
            fn c128() {
                super::$name::<Complex<f64>>();
            }
        }
    )*};
}
every_type!(cholesky, solve, lu, qr, eigh, svd);
