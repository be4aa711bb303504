//! Times of library steps: `cargo run --release -p jaxrs-cpu --example library_speed [threads]
//! [name]`. Contractions are compared with the `gemm` crate where it has the form.

use jaxrs_cpu::library::LibraryStep;
use jaxrs_cpu::pool::Pool;
use jaxrs_kernel::DType;
use jaxrs_kernel::program::{Convolution, Dot, DotAxis, Library, Sort, SortOrder, SpatialAxis};
use std::time::Instant;

/// Seconds of this thread on a CPU: what other programs do on the machine counts little.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Least time of a call in seconds.
fn least(threads: usize, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    let now = || if threads == 1 { thread_seconds() } else { start.elapsed().as_secs_f64() };
    call();
    let one = now();
    call();
    let one = (now() - one).max(1e-9);
    let calls = (20e-6 / one).ceil().min(1000.0) as u32;
    let mut best = f64::MAX;
    let mut rounds = 0;
    while rounds < 5 || start.elapsed().as_secs_f64() < 0.3 && rounds < 100_000 {
        let before = now();
        for _ in 0..calls {
            call();
        }
        best = best.min((now() - before) / f64::from(calls));
        rounds += 1;
    }
    best
}

/// Memory for an operand, result or scratch, aligned to 64.
fn memory(bytes: u64, float: bool) -> Vec<[u64; 8]> {
    let fill = if float { 0x3f80_0000_3f80_0000 } else { 0x0101_0101_0101_0101 };
    vec![[fill; 8]; (bytes as usize).div_ceil(64)]
}

fn run(pool: &Pool, library: &Library, operands: &[(DType, Vec<u64>)], bytes: &[u64]) -> f64 {
    let step = LibraryStep::new(library, operands);
    let scratch = jaxrs_kernel::scratch::scratch(library).per_thread.0 * pool.threads() as u64;
    let mut scratch = memory(scratch, true);
    let mut buffers: Vec<_> = bytes.iter().map(|&b| memory(b, true)).collect();
    let pointers: Vec<*mut u8> = buffers.iter_mut().map(|b| b.as_mut_ptr().cast()).collect();
    // SAFETY: the buffers have the bytes that the step reads and writes.
    least(pool.threads(), || unsafe {
        step.run(pool, pointers.as_ptr(), scratch.as_mut_ptr().cast());
    })
}

fn matrix(m: u64, n: u64, k: u64, form: &str, types: [DType; 2], out: DType) -> Dot {
    let axis = |extent, lhs, rhs, out| DotAxis { extent, lhs, rhs, out };
    let (m_, n_, k_) = (m as i64, n as i64, k as i64);
    let (lm, lk) = if form.starts_with('t') { (1, m_) } else { (k_, 1) };
    let (rn, rk) = if form.ends_with('t') { (k_, 1) } else { (1, n_) };
    Dot {
        operand_types: types,
        out,
        batch: vec![],
        m: vec![axis(m, lm, 0, n_)],
        n: vec![axis(n, 0, rn, 1)],
        k: vec![axis(k, lk, rk, 0)],
        begin: Default::default(),
        epilogue: None,
    }
}

fn dot(pool: &Pool, name: &str, [m, n, k]: [u64; 3], form: &str, types: [DType; 2], out: DType) {
    let dot = matrix(m, n, k, form, types, out);
    let bytes = [m * k * types[0].size(), k * n * types[1].size(), m * n * out.size()];
    let seconds = run(pool, &Library::Dot(dot.clone()), &[], &bytes);
    let rate = |s: f64| 2.0 * (m * n * k) as f64 / s / 1e9;
    print!("{name:24} {:9.1} us {:7.1} GFLOP/s", seconds * 1e6, rate(seconds));
    if out == DType::F32 && types[0] == DType::F32 {
        let (a, b) = (memory(bytes[0], true), memory(bytes[1], true));
        let mut c = memory(bytes[2], true);
        // SAFETY: the matrices have these sizes, rows one after the other.
        let theirs = least(1, || unsafe {
            gemm::gemm::<f32>(
                m as usize,
                n as usize,
                k as usize,
                c.as_mut_ptr().cast(),
                1,
                n as isize,
                false,
                a.as_ptr().cast(),
                dot.k[0].lhs as isize,
                dot.m[0].lhs as isize,
                b.as_ptr().cast(),
                dot.n[0].rhs as isize,
                dot.k[0].rhs as isize,
                0.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        });
        print!("   gemm: {:9.1} us, ratio {:.2}", theirs * 1e6, seconds / theirs);
    }
    println!();
}

/// A convolution of an image `[n, h, w, c]` by a window `[kh, kw, c, f]`.
struct Conv {
    groups: u64,
    image: [u64; 4],
    window: [u64; 3],
    stride: i64,
    pad: i64,
    channels_first: bool,
}

fn conv(pool: &Pool, name: &str, c: &Conv) {
    let [n, h, w, features] = c.image;
    let [kh, kw, outputs] = c.window;
    let extent =
        |size: u64, window: u64| ((size as i64 + 2 * c.pad - window as i64) / c.stride + 1) as u64;
    let (oh, ow) = (extent(h, kh), extent(w, kw));
    let inputs = features / c.groups;
    let (shapes, spatial, features_at) = if c.channels_first {
        (
            [vec![n, features, h, w], vec![outputs, inputs, kh, kw], vec![n, outputs, oh, ow]],
            [[2, 2, 2], [3, 3, 3]],
            [1, 1, 0, 1],
        )
    } else {
        (
            [vec![n, h, w, features], vec![kh, kw, inputs, outputs], vec![n, oh, ow, outputs]],
            [[1, 0, 1], [2, 1, 2]],
            [3, 2, 3, 3],
        )
    };
    let flops = 2.0 * (n * oh * ow * outputs * kh * kw * inputs) as f64;
    let spatial = spatial.map(|axis| SpatialAxis {
        axis,
        stride: c.stride,
        pad_low: c.pad,
        pad_high: c.pad,
        lhs_dilation: 1,
        rhs_dilation: 1,
        reverse: false,
    });
    time_conv(pool, name, shapes, [0, 0], features_at, spatial, (c.groups, flops));
}

/// The gradient of a window `[kh, kw, c, f]`.
fn kernel_gradient(pool: &Pool, name: &str, c: &Conv) {
    let [n, h, w, features] = c.image;
    let [kh, kw, outputs] = c.window;
    let shapes = [vec![n, h, w, features], vec![n, h, w, outputs], vec![kh, kw, features, outputs]];
    let flops = 2.0 * (n * h * w * outputs * kh * kw * features) as f64;
    let spatial = [[1, 1, 0], [2, 2, 1]].map(|axis| SpatialAxis {
        axis,
        stride: 1,
        pad_low: c.pad,
        pad_high: c.pad,
        lhs_dilation: 1,
        rhs_dilation: 1,
        reverse: false,
    });
    time_conv(pool, name, shapes, [3, 2], [0, 0, 3, 3], spatial, (1, flops));
}

fn time_conv(
    pool: &Pool,
    name: &str,
    shapes: [Vec<u64>; 3],
    batch: [usize; 2],
    features: [usize; 4],
    spatial: [SpatialAxis; 2],
    (groups, flops): (u64, f64),
) {
    let bytes: Vec<u64> = shapes.iter().map(|s| 4 * s.iter().product::<u64>()).collect();
    let conv = Convolution {
        operand_types: [DType::F32; 2],
        out: DType::F32,
        shapes,
        batch,
        features,
        spatial: spatial.to_vec(),
        feature_groups: groups,
        batch_groups: 1,
    };
    let seconds = run(pool, &Library::Convolution(conv), &[], &bytes);
    println!("{name:24} {:9.1} us {:7.1} GFLOP/s", seconds * 1e6, flops / seconds / 1e9);
}

fn sort(pool: &Pool, name: &str, extents: [u64; 3]) {
    let order = SortOrder::Key { operand: 0, descending: false };
    let count: u64 = extents.iter().product();
    let step = LibraryStep::new(
        &Library::Sort(Sort { extents, dtypes: vec![DType::F32], stable: true, order }),
        &[],
    );
    let library = Library::Sort(Sort { extents, dtypes: vec![DType::F32], stable: true, order });
    let scratch = jaxrs_kernel::scratch::scratch(&library).per_thread.0 * pool.threads() as u64;
    let mut scratch = memory(scratch, true);
    let input: Vec<f32> =
        (0..count).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 - 8e6).collect();
    let mut out = vec![0f32; count as usize];
    let pointers = [input.as_ptr().cast_mut().cast(), out.as_mut_ptr().cast()];
    // SAFETY: the buffers have the operand's length.
    let seconds = least(pool.threads(), || unsafe {
        step.run(pool, pointers.as_ptr(), scratch.as_mut_ptr().cast());
    });
    println!("{name:24} {:9.1} us {:7.2} ns/element", seconds * 1e6, seconds * 1e9 / count as f64);
}

fn main() {
    use DType as D;
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().and_then(|a| a.parse().ok()).unwrap_or(1);
    let only = arguments.next().unwrap_or_default();
    let pool = Pool::new(threads);
    let pool = &pool;
    let f = [D::F32; 2];
    let dots = [
        ("f32 4", 4, 4, 4, "nn", f, D::F32),
        ("f32 16", 16, 16, 16, "nn", f, D::F32),
        ("f32 64", 64, 64, 64, "nn", f, D::F32),
        ("f32 128", 128, 128, 128, "nn", f, D::F32),
        ("f32 256", 256, 256, 256, "nn", f, D::F32),
        ("f32 256 nt", 256, 256, 256, "nt", f, D::F32),
        ("f32 256 tn", 256, 256, 256, "tn", f, D::F32),
        ("f32 1024", 1024, 1024, 1024, "nn", f, D::F32),
        ("f32 1024 nt", 1024, 1024, 1024, "nt", f, D::F32),
        ("f32 1024 tn", 1024, 1024, 1024, "tn", f, D::F32),
        ("f32 1000", 1000, 1000, 1000, "nn", f, D::F32),
        ("f32 kmeans", 65536, 64, 32, "nn", f, D::F32),
        ("f32 lstm", 32, 1024, 256, "nn", f, D::F32),
        ("f32 gpt2", 64, 3072, 768, "nn", f, D::F32),
        ("f32 gpt2 attention nt", 64, 64, 64, "nt", f, D::F32),
        ("f32 decode", 4, 2048, 512, "nn", f, D::F32),
        ("f32 decode nt", 4, 2048, 512, "nt", f, D::F32),
        ("f32 rows 8", 8, 3072, 768, "nn", f, D::F32),
        ("f32 rows 12", 12, 3072, 768, "nn", f, D::F32),
        ("f32 rows 16", 16, 3072, 768, "nn", f, D::F32),
        ("f32 rows 16 nt", 16, 3072, 768, "nt", f, D::F32),
        ("f32 mv", 16384, 1, 512, "nn", f, D::F32),
        ("f32 vm", 1, 512, 16384, "nn", f, D::F32),
        ("f32 vm transposed", 512, 1, 16384, "tn", f, D::F32),
        ("f32 dot", 1, 1, 65536, "nn", f, D::F32),
        ("f32 n=10", 256, 10, 1024, "nn", f, D::F32),
        ("f64 512", 512, 512, 512, "nn", [D::F64; 2], D::F64),
        ("bf16 1024", 1024, 1024, 1024, "nn", [D::BF16; 2], D::BF16),
        ("bf16 1024 to f32", 1024, 1024, 1024, "nn", [D::BF16; 2], D::F32),
        ("bf16 decode", 4, 2048, 512, "nn", [D::BF16; 2], D::BF16),
        ("bf16 decode nt", 4, 2048, 512, "nt", [D::BF16; 2], D::BF16),
        ("bf16 mlp", 512, 1536, 384, "nn", [D::BF16; 2], D::F32),
        ("f16 decode nt", 4, 2048, 512, "nt", [D::F16; 2], D::F16),
        ("f16 512", 512, 512, 512, "nn", [D::F16; 2], D::F16),
        ("c64 256", 256, 256, 256, "nn", [D::C64; 2], D::C64),
        ("i8 256x1024x1024", 256, 1024, 1024, "nn", [D::I8; 2], D::I32),
        ("i32 256", 256, 256, 256, "nn", [D::I32; 2], D::I32),
        ("i64 256", 256, 256, 256, "nn", [D::I64; 2], D::I64),
    ];
    for (name, m, n, k, form, types, out) in dots {
        if name.contains(&only) {
            dot(pool, name, [m, n, k], form, types, out);
        }
    }
    let c = |image, window, stride, pad, channels_first| Conv {
        image,
        window,
        stride,
        pad,
        channels_first,
        groups: 1,
    };
    let depthwise = |channels_first| Conv {
        groups: 128,
        ..c([4, 56, 56, 128], [3, 3, 128], 1, 1, channels_first)
    };
    let convs = [
        ("conv 56x56x64", c([8, 56, 56, 64], [3, 3, 64], 1, 1, false)),
        ("conv 64x64x32", c([2, 64, 64, 32], [3, 3, 32], 1, 1, false)),
        ("conv 32x32x3", c([4, 32, 32, 3], [3, 3, 64], 1, 1, false)),
        ("conv 28x28x1", c([64, 28, 28, 1], [3, 3, 32], 1, 1, false)),
        ("conv 32x32x16", c([16, 32, 32, 16], [3, 3, 16], 1, 1, false)),
        ("conv 8x8x256", c([4, 8, 8, 256], [3, 3, 256], 1, 1, false)),
        ("conv 4x4x512", c([4, 4, 4, 512], [3, 3, 512], 1, 1, false)),
        ("conv 1x1", c([4, 32, 32, 64], [1, 1, 128], 2, 0, false)),
        ("conv nchw 64x64x32", c([4, 64, 64, 32], [3, 3, 32], 1, 0, true)),
        ("conv depthwise", depthwise(false)),
        ("conv depthwise nchw", depthwise(true)),
        ("conv nchw padded", c([4, 64, 64, 32], [3, 3, 32], 1, 1, true)),
    ];
    for (name, conv_) in &convs {
        if name.contains(&only) {
            conv(pool, name, conv_);
        }
    }
    let gradients = [
        ("conv gradient 32x32x16", c([16, 32, 32, 16], [3, 3, 16], 1, 1, false)),
        ("conv gradient 14x14x32", c([64, 14, 14, 32], [3, 3, 64], 1, 1, false)),
        ("conv gradient 28x28x1", c([64, 28, 28, 1], [3, 3, 32], 1, 1, false)),
    ];
    for (name, conv) in &gradients {
        if name.contains(&only) {
            kernel_gradient(pool, name, conv);
        }
    }
    for (name, extents) in [
        ("sort 16x16384", [16, 16384, 1]),
        ("sort columns 16x16384", [1, 16, 16384]),
        ("sort 1M", [1, 1 << 20, 1]),
        ("sort 10000x64", [10000, 64, 1]),
    ] {
        if name.contains(&only) {
            sort(pool, name, extents);
        }
    }
}
