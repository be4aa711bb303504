//! Contractions and convolutions against the plain loops, on every kind of machine this one can be.

use super::super::LibraryStep;
use super::super::tests::{Random, aligned, machines};
use super::plain;
use crate::pool::Pool;
use jaxrs_kernel::DType;
use jaxrs_kernel::program::{
    Convolution, Dot, DotAxis, DotStart, Epilogue, EpilogueParam, KernelId, Library, SpatialAxis,
};

const TYPES: [([DType; 2], DType); 20] = {
    use DType as D;
    [
        ([D::F32, D::F32], D::F32),
        ([D::F64, D::F64], D::F64),
        ([D::BF16, D::BF16], D::BF16),
        ([D::BF16, D::BF16], D::F32),
        ([D::F16, D::F16], D::F16),
        ([D::F32, D::BF16], D::F32),
        ([D::C64, D::C64], D::C64),
        ([D::C128, D::C128], D::C128),
        ([D::I8, D::I8], D::I32),
        ([D::U8, D::U8], D::I32),
        ([D::U8, D::I8], D::I32),
        ([D::I8, D::I8], D::I8),
        ([D::I16, D::I16], D::I16),
        ([D::I32, D::I32], D::I32),
        ([D::U32, D::U32], D::U32),
        ([D::I32, D::I32], D::I64),
        ([D::I64, D::I64], D::I64),
        ([D::I1, D::I1], D::I1),
        ([D::I8, D::I8], D::F32),
        ([D::F32, D::F32], D::C64),
    ]
};

/// Runs the library's way and the plain loops on the same operands; one thread and three.
fn check(library: &Library, types: [DType; 2], out: DType, lens: [u64; 3], random: &mut Random) {
    let bytes = |dtype: DType, len: u64| (dtype.size() * len) as usize;
    let lhs = random.elements(types[0], lens[0]);
    let rhs = random.elements(types[1], lens[1]);
    let mut expected = vec![0xa5u8; bytes(out, lens[2])];
    let one = Pool::shared(1);
    let pools = [Pool::shared(1), Pool::shared(3)];
    let buffers =
        plain::Buffers { lhs: lhs.as_ptr(), rhs: rhs.as_ptr(), out: expected.as_mut_ptr() };
    // SAFETY: the buffers have the lengths that the shapes say.
    unsafe {
        match library {
            Library::Dot(dot) => plain::dot(dot, &one, buffers),
            Library::Convolution(conv) => plain::convolution(conv, &one, buffers),
            _ => unreachable!(),
        }
    }
    let per_thread = jaxrs_kernel::scratch::scratch(library).per_thread.0 as usize;
    for machine in machines() {
        let step = LibraryStep::with(library, &[], machine);
        for pool in &pools {
            let mut scratch = aligned(per_thread * pool.threads());
            scratch.fill(0xff);
            let mut result = vec![0x5au8; expected.len()];
            let pointers = [lhs.as_ptr().cast_mut(), rhs.as_ptr().cast_mut(), result.as_mut_ptr()];
            // SAFETY: as above; the scratch has the bytes for the pool's threads.
            unsafe { step.run(pool, pointers.as_ptr(), scratch.as_mut_ptr()) };
            assert!(
                random.same(out, &result, &expected),
                "{machine:?}, {} threads: {library:?}",
                pool.threads()
            );
        }
    }
}

/// Dense strides of axes with these extents, laid out in a random order.
fn strides(extents: &[u64], random: &mut Random) -> Vec<i64> {
    let mut order: Vec<usize> = (0..extents.len()).collect();
    if random.below(2) == 0 {
        random.shuffle(&mut order);
    }
    let mut strides = vec![0; extents.len()];
    let mut step = 1;
    for &axis in order.iter().rev() {
        strides[axis] = step;
        step *= extents[axis] as i64;
    }
    strides
}

fn random_dot(types: [DType; 2], out: DType, random: &mut Random) -> (Dot, [u64; 3]) {
    let mut group = |most: u64, limit: u64| -> Vec<u64> {
        let count = random.below(4).min(2);
        let each = if count == 2 { limit.isqrt() } else { limit };
        (0..count)
            .map(|_| if random.below(12) == 0 { 1 } else { 1 + random.below(each.min(most)) })
            .collect()
    };
    let (batch, m, n, k) = (group(3, 5), group(40, 50), group(70, 90), group(600, 300));
    let (nb, nm, nn, nk) = (batch.len(), m.len(), n.len(), k.len());
    let join = |parts: [&[u64]; 3]| parts.concat();
    let lhs = join([&batch, &m, &k]);
    let rhs = join([&batch, &n, &k]);
    let result = join([&batch, &m, &n]);
    let (ls, rs, os) = (strides(&lhs, random), strides(&rhs, random), strides(&result, random));
    let axis = |extent, lhs, rhs, out| DotAxis { extent, lhs, rhs, out };
    let dot = Dot {
        operand_types: types,
        out,
        batch: (0..nb).map(|i| axis(batch[i], ls[i], rs[i], os[i])).collect(),
        m: (0..nm).map(|i| axis(m[i], ls[nb + i], 0, os[nb + i])).collect(),
        n: (0..nn).map(|i| axis(n[i], 0, rs[nb + i], os[nb + nm + i])).collect(),
        k: (0..nk).map(|i| axis(k[i], ls[nb + nm + i], rs[nb + nn + i], 0)).collect(),
        begin: Default::default(),
        epilogue: None,
    };
    let len = |shape: &[u64]| shape.iter().product();
    (dot, [len(&lhs), len(&rhs), len(&result)])
}

#[test]
fn dots() {
    let mut random = Random::new(1);
    for (types, out) in TYPES {
        for _ in 0..12 {
            let (dot, lens) = random_dot(types, out, &mut random);
            check(&Library::Dot(dot), types, out, lens, &mut random);
        }
    }
}

/// `result[j] = 2 * sums[j] + row[j] + column[0]`, as bytes: a kernel of one row.
unsafe extern "C" fn finish(buffers: *const *mut u8, lo: i64, hi: i64) {
    // SAFETY: by the test, the buffers begin where their rows do.
    unsafe {
        let [sums, row, column, result] = [0, 1, 2, 3].map(|n| (*buffers.add(n)).cast::<f32>());
        for j in lo as usize..hi as usize {
            let sum = 2.0 * *sums.wrapping_add(j) + *row.wrapping_add(j) + *column;
            *result.cast::<u8>().wrapping_add(j) = sum as i64 as u8;
        }
    }
}

/// Rows beyond a block, columns beyond a block, batches, and depths of several blocks.
#[test]
fn epilogues() {
    let mut random = Random::new(9);
    let axis = |extent, lhs, rhs, out| DotAxis { extent, lhs, rhs, out };
    for (types, [b, m, n, k]) in [
        ([DType::F32, DType::F32], [1, 40, 33, 5]),
        ([DType::F32, DType::F32], [3, 37, 300, 20]),
        ([DType::BF16, DType::BF16], [2, 131, 64, 300]),
        ([DType::F16, DType::F32], [1, 150, 530, 600]),
    ] {
        let plain = Dot {
            operand_types: types,
            out: DType::F32,
            batch: vec![axis(b, (m * k) as i64, (k * n) as i64, (m * n) as i64)],
            m: vec![axis(m, k as i64, 0, n as i64)],
            n: vec![axis(n, 0, 1, 1)],
            k: vec![axis(k, 1, n as i64, 0)],
            begin: Default::default(),
            epilogue: None,
        };
        let epilogue = Epilogue {
            kernel: KernelId::from_u32(0),
            row: n,
            params: vec![
                EpilogueParam::Sums,
                EpilogueParam::Operand { operand: 2, step: 0 },
                EpilogueParam::Operand { operand: 3, step: 4 },
            ],
            result_row: n,
        };
        let lhs = random.elements(types[0], b * m * k);
        let rhs = random.elements(types[1], b * k * n);
        let (row, column) = (random.elements(DType::F32, n), random.elements(DType::F32, b * m));
        let mut sums = aligned((4 * b * m * n) as usize);
        let buffers =
            plain::Buffers { lhs: lhs.as_ptr(), rhs: rhs.as_ptr(), out: sums.as_mut_ptr() };
        // SAFETY: the buffers have the lengths that the shapes say.
        unsafe { plain::dot(&plain, &Pool::shared(1), buffers) };
        let mut expected = vec![0u8; (b * m * n) as usize];
        for i in 0..(b * m) as usize {
            let buffers = [
                sums.as_mut_ptr().wrapping_add(4 * i * n as usize),
                row.as_ptr().cast_mut(),
                column.as_ptr().cast_mut().wrapping_add(4 * i),
                expected.as_mut_ptr().wrapping_add(i * n as usize),
            ];
            // SAFETY: as above.
            unsafe { finish(buffers.as_ptr(), 0, n as i64) };
        }
        let library = Library::Dot(Dot { epilogue: Some(Box::new(epilogue)), ..plain });
        let per_thread = jaxrs_kernel::scratch::scratch(&library).per_thread.0 as usize;
        let operands = vec![(DType::F32, vec![]); 4];
        for machine in machines() {
            let step = LibraryStep::with(&library, &operands, machine);
            step.set_kernel(finish);
            for threads in [1, 3] {
                let pool = Pool::shared(threads);
                let mut scratch = aligned(per_thread * pool.threads());
                scratch.fill(0xff);
                let mut result = vec![0x5au8; expected.len()];
                let operands = [&lhs[..], &rhs, &row, &column];
                let [a, b, c, d] = operands.map(|bytes| bytes.as_ptr().cast_mut());
                let pointers = [a, b, c, d, result.as_mut_ptr()];
                // SAFETY: as above; the scratch has the bytes for the pool's threads.
                unsafe { step.run(&pool, pointers.as_ptr(), scratch.as_mut_ptr()) };
                assert_eq!(result, expected, "{machine:?}, {threads} threads: {library:?}");
            }
        }
    }
}

#[test]
fn thin_dots() {
    let axis = |extent, lhs, rhs, out| DotAxis { extent, lhs, rhs, out };
    let mut random = Random::new(5);
    for (types, out) in TYPES {
        for (m, n, k) in
            [(1, 300, 70), (300, 1, 70), (3, 37, 5), (8, 530, 9), (1, 1, 5000), (5, 13, 1300)]
        {
            for form in 0..4 {
                let (m_, n_, k_) = (m as i64, n as i64, k as i64);
                let (lm, lk) = if form % 2 == 0 { (k_, 1) } else { (1, m_) };
                let (rn, rk) = if form / 2 == 0 { (1, n_) } else { (k_, 1) };
                let dot = Dot {
                    operand_types: types,
                    out,
                    batch: vec![],
                    m: vec![axis(m, lm, 0, n_)],
                    n: vec![axis(n, 0, rn, 1)],
                    k: vec![axis(k, lk, rk, 0)],
                    begin: Default::default(),
                    epilogue: None,
                };
                if form == 0 || matches!(out, DType::F32 | DType::F64) {
                    let lens = [m * k, n * k, m * n];
                    check(&Library::Dot(dot), types, out, lens, &mut random);
                }
            }
        }
    }
}

#[test]
fn tiny_dots() {
    let axis = |extent, lhs, rhs, out| DotAxis { extent, lhs, rhs, out };
    let mut random = Random::new(6);
    for (types, out) in TYPES {
        for (b, m, n, k) in
            [(1, 4, 4, 4), (700, 4, 4, 4), (90, 1, 1, 5), (50, 3, 13, 4), (9, 1, 29, 2)]
        {
            let dot = Dot {
                operand_types: types,
                out,
                batch: vec![axis(b, (m * k) as i64, (n * k) as i64, (m * n) as i64)],
                m: vec![axis(m, k as i64, 0, n as i64)],
                n: vec![axis(n, 0, 1, 1)],
                k: vec![axis(k, 1, n as i64, 0)],
                begin: Default::default(),
                epilogue: None,
            };
            let lens = [b * m * k, b * n * k, b * m * n];
            check(&Library::Dot(dot), types, out, lens, &mut random);
        }
    }
}

/// Axes further apart, some of them backwards, in memory that is larger than the tensor; part of the
/// place is an index among the operands.
#[test]
fn dots_inside_of_larger_tensors() {
    const INDICES: [DType; 8] = {
        use DType as D;
        [D::I32, D::I64, D::U64, D::U32, D::I8, D::U8, D::I16, D::U16]
    };
    let mut random = Random::new(7);
    for (types, out) in TYPES {
        for round in 0..8 {
            let (mut dot, mut lens) = random_dot(types, out, &mut random);
            let elements = [types[0], types[1], out];
            let mut indices: Vec<[u8; 8]> = Vec::new();
            for t in 0..3 {
                let spread = 1 + random.below(2) as i64;
                let mut first = 0;
                let groups = [&mut dot.batch, &mut dot.m, &mut dot.n, &mut dot.k];
                for axis in groups.into_iter().flatten() {
                    let stride = [&mut axis.lhs, &mut axis.rhs, &mut axis.out].into_iter().nth(t);
                    let stride = stride.expect("three tensors");
                    *stride *= spread;
                    if random.below(4) == 0 {
                        first += *stride * (axis.extent as i64 - 1);
                        *stride = -*stride;
                    }
                }
                lens[t] = lens[t] * spread as u64 + 20;
                dot.begin[t].first = first + random.below(7) as i64;
                if random.below(2) == 0 {
                    let high = random.below(5) as i64;
                    let dtype = INDICES[random.below(8) as usize];
                    let (operand, stride) = (2 + indices.len() as u32, 3);
                    dot.begin[t].starts.push(DotStart { operand, dtype, high, stride });
                    // Too small and too large ones, too.
                    indices.push((random.below(9) as i64 - 2).to_le_bytes());
                }
            }
            let index = |s: &DotStart| {
                let bits = i64::from_le_bytes(indices[s.operand as usize - 2]);
                let unsigned = !matches!(s.dtype, D::I8 | D::I16 | D::I32 | D::I64);
                if bits < 0 && unsigned { s.high } else { bits.clamp(0, s.high) }
            };
            use DType as D;
            let offsets: Vec<usize> = (0..3)
                .map(|t| {
                    let begin = &dot.begin[t];
                    let starts = begin.starts.iter().map(|s| index(s) * s.stride);
                    ((begin.first + starts.sum::<i64>()) as u64 * elements[t].size()) as usize
                })
                .collect();
            let mut lhs = random.elements(types[0], lens[0]);
            let mut rhs = random.elements(types[1], lens[1]);
            let before = random.elements(out, lens[2]);
            let mut expected = before.to_vec();
            let pool = Pool::shared(1 + 2 * (round % 2));
            // SAFETY: the last element of each tensor, moved by its index, is inside its buffer.
            unsafe {
                let buffers = plain::Buffers {
                    lhs: lhs.as_ptr().add(offsets[0]),
                    rhs: rhs.as_ptr().add(offsets[1]),
                    out: expected.as_mut_ptr().add(offsets[2]),
                };
                plain::dot(&dot, &pool, buffers);
            }
            let library = Library::Dot(dot);
            let per_thread = jaxrs_kernel::scratch::scratch(&library).per_thread.0 as usize;
            for machine in machines() {
                let operands = vec![(D::F32, Vec::new()); 3 + indices.len()];
                let step = LibraryStep::with(&library, &operands, machine);
                let mut scratch = aligned(per_thread * pool.threads());
                let mut result = before.to_vec();
                let mut pointers = vec![lhs.as_mut_ptr(), rhs.as_mut_ptr()];
                pointers.extend(indices.iter_mut().map(|index| index.as_mut_ptr()));
                // The updated operand is where the result is.
                pointers.extend([result.as_mut_ptr(); 2]);
                // SAFETY: as above.
                unsafe { step.run(&pool, pointers.as_ptr(), scratch.as_mut_ptr()) };
                assert!(random.same(out, &result, &expected), "{machine:?}: {library:?}");
            }
        }
    }
}

#[test]
fn empty_dots() {
    let axis = |extent, lhs, rhs, out| DotAxis { extent, lhs, rhs, out };
    let mut random = Random::new(2);
    for (m, n, k) in [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 1, 0)] {
        for (types, out) in TYPES {
            let dot = Dot {
                operand_types: types,
                out,
                batch: vec![],
                m: vec![axis(m, k as i64, 0, n as i64)],
                n: vec![axis(n, 0, 1, 1)],
                k: vec![axis(k, 1, n as i64, 0)],
                begin: Default::default(),
                epilogue: None,
            };
            check(&Library::Dot(dot), types, out, [m * k, k * n, m * n], &mut random);
        }
    }
}

/// A random convolution: any layout, padding, dilation, reversal and groups.
fn random_convolution(types: [DType; 2], out: DType, random: &mut Random) -> Convolution {
    let rank = random.below(4).min(2) as usize;
    let order = |random: &mut Random| {
        let mut order: Vec<usize> = (0..rank + 2).collect();
        random.shuffle(&mut order);
        order
    };
    let (lhs_axes, rhs_axes, out_axes) = (order(random), order(random), order(random));
    let (feature_groups, batch_groups) = match random.below(4) {
        0 => (1 + random.below(3), 1),
        1 => (1, 1 + random.below(3)),
        _ => (1, 1),
    };
    let inputs = 1 + random.below(6);
    let outputs = (1 + random.below(9)) * feature_groups * batch_groups;
    let images = 1 + random.below(3);
    let mut shapes = [vec![0; rank + 2], vec![0; rank + 2], vec![0; rank + 2]];
    shapes[0][lhs_axes[0]] = images * batch_groups;
    shapes[0][lhs_axes[1]] = inputs * feature_groups;
    shapes[1][rhs_axes[0]] = inputs;
    shapes[1][rhs_axes[1]] = outputs;
    shapes[2][out_axes[0]] = images;
    shapes[2][out_axes[1]] = outputs;
    let spatial = (0..rank)
        .map(|i| {
            loop {
                let axis = [lhs_axes[i + 2], rhs_axes[i + 2], out_axes[i + 2]];
                let plain = random.below(2) == 0;
                let mut pick = |most: u64| if plain { 1 } else { 1 + random.below(most) as i64 };
                let (stride, lhs_dilation, rhs_dilation) = (pick(3), pick(3), pick(3));
                let spatial = SpatialAxis {
                    axis,
                    stride,
                    pad_low: random.below(7) as i64 - 2,
                    pad_high: random.below(7) as i64 - 2,
                    lhs_dilation,
                    rhs_dilation,
                    reverse: random.below(3) == 0,
                };
                let (size, window) = (random.below(14), 1 + random.below(4));
                let dilated = |n: u64, by: i64| if n == 0 { 0 } else { (n as i64 - 1) * by + 1 };
                let padded = dilated(size, lhs_dilation) + spatial.pad_low + spatial.pad_high;
                let extent = (padded - dilated(window, rhs_dilation)).div_euclid(stride) + 1;
                if padded < 0 {
                    continue;
                }
                shapes[0][axis[0]] = size;
                shapes[1][axis[1]] = window;
                shapes[2][axis[2]] = extent.max(0) as u64;
                break spatial;
            }
        })
        .collect();
    Convolution {
        operand_types: types,
        out,
        shapes,
        batch: [lhs_axes[0], out_axes[0]],
        features: [lhs_axes[1], rhs_axes[0], rhs_axes[1], out_axes[1]],
        spatial,
        feature_groups,
        batch_groups,
    }
}

#[test]
fn convolutions() {
    let mut random = Random::new(3);
    for round in 0..25 {
        for (types, out) in TYPES {
            if round > 3 && !matches!(out, DType::F32 | DType::BF16 | DType::C64) {
                continue;
            }
            let conv = random_convolution(types, out, &mut random);
            let lens = [0, 1, 2].map(|i: usize| conv.shapes[i].iter().product());
            check(&Library::Convolution(conv), types, out, lens, &mut random);
        }
    }
}

/// Features enough for several tiles, and windows as a gradient has them.
#[test]
fn larger_convolutions() {
    let axis =
        |at: [usize; 3], pad: i64, stride: i64, lhs_dilation: i64, rhs_dilation: i64| SpatialAxis {
            axis: at,
            stride,
            pad_low: pad,
            pad_high: pad,
            lhs_dilation,
            rhs_dilation,
            reverse: false,
        };
    let types = [DType::F32; 2];
    let base = Convolution {
        operand_types: types,
        out: DType::F32,
        shapes: [vec![2, 9, 14, 24], vec![3, 3, 24, 40], vec![2, 9, 14, 40]],
        batch: [0, 0],
        features: [3, 2, 3, 3],
        spatial: vec![axis([1, 0, 1], 1, 1, 1, 1), axis([2, 1, 2], 1, 1, 1, 1)],
        feature_groups: 1,
        batch_groups: 1,
    };
    // The kernel's gradient: batch and features exchanged, the window as large as the image.
    let kernel = Convolution {
        shapes: [vec![2, 9, 14, 24], vec![2, 9, 14, 40], vec![3, 3, 24, 40]],
        batch: [3, 2],
        features: [0, 0, 3, 3],
        spatial: vec![axis([1, 1, 0], 1, 1, 1, 1), axis([2, 2, 1], 1, 1, 1, 1)],
        ..base.clone()
    };
    // The input's gradient of a strided convolution.
    let input = Convolution {
        shapes: [vec![2, 5, 7, 24], vec![3, 3, 24, 40], vec![2, 9, 13, 40]],
        spatial: vec![axis([1, 0, 1], 1, 1, 2, 1), axis([2, 1, 2], 1, 1, 2, 1)],
        ..base.clone()
    };
    let channels_first = Convolution {
        shapes: [vec![2, 24, 9, 14], vec![40, 24, 3, 3], vec![2, 40, 9, 14]],
        features: [1, 1, 0, 1],
        spatial: vec![axis([2, 2, 2], 2, 1, 1, 2), axis([3, 3, 3], 1, 1, 1, 1)],
        ..base.clone()
    };
    let mut random = Random::new(4);
    for conv in [base, kernel, input, channels_first] {
        let lens = [0, 1, 2].map(|i: usize| conv.shapes[i].iter().product());
        check(&Library::Convolution(conv), types, DType::F32, lens, &mut random);
    }
}

/// Sums that round: the bits are the same whatever the threads.
#[test]
fn threads_change_no_bit() {
    let mut random = Random::new(10);
    for round in 0..40 {
        let types = [DType::F32; 2];
        let (library, lens) = if round % 2 == 0 {
            let (dot, lens) = random_dot(types, DType::F32, &mut random);
            (Library::Dot(dot), lens)
        } else {
            let conv = random_convolution(types, DType::F32, &mut random);
            let lens = [0, 1, 2].map(|i: usize| conv.shapes[i].iter().product());
            (Library::Convolution(conv), lens)
        };
        let mut operand = |len: u64| -> Vec<f32> {
            (0..len).map(|_| random.below(1 << 24) as f32 / (1 << 22) as f32 - 2.0).collect()
        };
        let (lhs, rhs) = (operand(lens[0]), operand(lens[1]));
        let step = LibraryStep::new(&library, &[]);
        let per_thread = jaxrs_kernel::scratch::scratch(&library).per_thread.0 as usize;
        let results = [1, 2, 4].map(|threads| {
            let mut scratch = aligned(per_thread * threads);
            let mut result = vec![f32::NAN; lens[2] as usize];
            let pointers = [
                lhs.as_ptr().cast_mut().cast(),
                rhs.as_ptr().cast_mut().cast(),
                result.as_mut_ptr().cast(),
            ];
            // SAFETY: the buffers have the lengths that the shapes say.
            unsafe { step.run(&Pool::shared(threads), pointers.as_ptr(), scratch.as_mut_ptr()) };
            result.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
        });
        assert!(results[0] == results[1] && results[0] == results[2], "{library:?}");
    }
}
