//! The error function, its complement and its inverse.

use super::exponential::{exp_moderate, exp_product};
use super::logarithm::log;
use super::math::Math;
use jaxrs_kernel::Reg;

/// `erf(x) / x - 1` in `x^2` for `x` to 0.93 (2^-25.8) and to 1 (2^-62.7).
const ERF_32: &[f64] = &[
    1.283791477e-01,
    -3.761248116e-01,
    1.128168285e-01,
    -2.676172342e-02,
    4.985938904e-03,
    -5.953711091e-04,
];
const ERF_64: &[f64] = &[
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954858,
    -0.026866170645072938,
    0.00522397762478121,
    -0.0008548326978757313,
    0.00012055331037300316,
    -1.4925593513328211e-05,
    1.6460972875341212e-06,
    -1.635002542305974e-07,
    1.4657878727034427e-08,
    -1.136565330184479e-09,
    5.94522793605812e-11,
];
/// `-log(erfc(x)) / x` for `x` from 0.92 to 4, to 2^-30 of `erf(x)`.
const LOG_ERFC_32: &[f64] = &[
    1.128648467e+00,
    6.351514099e-01,
    1.062367260e-01,
    -2.376193640e-02,
    3.642401862e-03,
    -3.227906212e-04,
    1.123008346e-05,
];
/// `(1 + 2 x) e^(x^2) erfc(x)` in `(x - k) / (x + k)` for `x` from 0.45: `k` = 2 and `x` to 10.2
/// (2^-30.3), 4 and to 27.4 (2^-58.6).
const ERFCX_32: &[f64] = &[
    1.276978381e+00,
    -9.276381112e-02,
    -1.660303681e-01,
    1.640505376e-01,
    -5.422062640e-02,
    -8.023940648e-03,
    8.727058700e-03,
    1.214626415e-03,
    -1.468336386e-03,
    -3.096768489e-04,
    2.139114991e-04,
];
const ERFCX_64: &[f64] = &[
    1.2329951186255526,
    -0.1396211168405625,
    0.015379652102618893,
    0.06809705425469204,
    -0.1010390660362457,
    0.09373283499838103,
    -0.06633036581379238,
    0.03716751553673684,
    -0.016197734036135746,
    0.005031969987963997,
    -0.0007577734625459312,
    -0.00019925677633897754,
    0.00015062254938988677,
    -2.4398784100946954e-05,
    -1.1224862050362139e-05,
    5.708244956453622e-06,
    2.9974325341081294e-07,
    -8.22077773057809e-07,
    6.687984126549849e-08,
    1.0535742999177358e-07,
    -1.217669453254003e-08,
    -1.0385454222650171e-08,
];

/// `erf_inv(x) / x` of `w = -log(1 - x^2)`: in `w - 2.5` below 5 and in `sqrt(w) - 3` above.
const ERF_INV_32: [&[f64]; 2] = [
    &[
        1.501409421e+00,
        2.466407257e-01,
        -4.177707112e-03,
        -1.253707092e-03,
        2.186016278e-04,
        -4.396885466e-06,
        -3.528707506e-06,
        3.437348290e-07,
        2.852248445e-08,
    ],
    &[
        2.832976924e+00,
        1.001674039e+00,
        9.438516039e-03,
        -7.621972255e-03,
        5.742418501e-03,
        -3.674153952e-03,
        1.342492152e-03,
        1.009600412e-04,
        -1.953726835e-04,
    ],
];
/// The same in `w` below 1.5 (the next one would lose two bits there), in `w - 3.125` below 6.25, in
/// `sqrt(w) - 3.25` below 16 and in `sqrt(w) - 5` above; to 2^-52.5.
const ERF_INV_64: [&[f64]; 4] = [
    &[
        0.886226925452758,
        0.23201366653465047,
        0.011549342038422535,
        -0.002335101643882271,
        -0.00012804327640349874,
        4.6611355945278926e-05,
        2.020248521013772e-06,
        -1.0130975030324075e-06,
        -3.65031296160684e-08,
        2.198126109847322e-08,
        1.3351305753503895e-09,
        -8.045406688602947e-10,
        6.799780164647956e-11,
    ],
    &[
        1.653654562683103,
        0.24015818242558948,
        -0.006033670871430696,
        -0.0007407025341652946,
        0.00018673420803634575,
        -1.388252336491989e-05,
        -1.36546920380874e-06,
        4.2347878042474377e-07,
        -2.9070366857711286e-08,
        -4.112635166468371e-09,
        1.0512107726447936e-09,
        -5.4153726285169076e-11,
        -1.2974681516060503e-11,
        2.6334271671978378e-12,
        -8.160649079386764e-14,
        -4.053485427165732e-14,
        6.648419808693309e-15,
        2.010086060859753e-17,
        -1.3414422924304613e-16,
        1.1197241841016337e-17,
        1.3216581462450831e-18,
        -1.6926753194009864e-19,
        -4.31328103960754e-21,
    ],
    &[
        3.0838856104922203,
        1.0052589676941597,
        0.0053709145536026265,
        -0.003751208507598289,
        0.002491442095510976,
        -0.0016882755553119212,
        0.0009532893906459924,
        -0.0003550375282113846,
        2.40310105849777e-05,
        6.828489740311219e-05,
        -4.7317716400827835e-05,
        1.2475151888808805e-05,
        2.9218990865781383e-06,
        -4.01357889917177e-06,
        1.5054560711457666e-06,
        1.7949990621359116e-08,
        -2.777458643769053e-07,
        9.087621987987943e-08,
        3.2282382862023043e-09,
    ],
    &[
        4.8499064014085835,
        1.010300464864534,
        -0.00013871931832058626,
        -0.0002150301192821386,
        7.599527672345046e-05,
        -1.96817783580664e-05,
        4.526064870662362e-06,
        -9.92981269144627e-07,
        2.2899659544667368e-07,
        -6.77161866605266e-08,
        2.9164009937237365e-08,
        -1.495374722419161e-08,
        7.598474034460477e-09,
        -3.7941720875264e-09,
        1.5171952553609015e-09,
        -2.5417298046563656e-10,
        -2.92321057041871e-11,
    ],
];

/// `erfc(x)` for `x >= 0.45`: `e^(-x^2)` times a quotient, with the rounding errors of the square
/// and of the quotient put back.
fn erfc_positive(m: &mut Math<'_>, x: Reg) -> Reg {
    let (k, limit) = if m.wide() { (4.0, 27.4) } else { (2.0, 10.2) };
    let x = m.min_c(x, limit);
    let (less, more) = (m.add_c(x, -k), m.add_c(x, k));
    let q = m.div(less, more);
    let coefficients = if m.wide() { ERFCX_64 } else { ERFCX_32 };
    let slope = m.poly(q, &coefficients[1..]);
    let first = m.c(coefficients[0]);
    let g = m.fma(slope, q, first);
    let back = m.sub(first, g);
    let g_low = m.fma(slope, q, back);
    let denominator = m.fma_cc(x, 2.0, 1.0);
    let quotient = m.div(g, denominator);
    let minus = m.neg(quotient);
    let rest = m.fma(minus, denominator, g);
    let back = m.c_sub(1.0, denominator);
    let denominator_low = m.fma_c(x, 2.0, back);
    let rest = m.fma(minus, denominator_low, rest);
    let rest = m.add(rest, g_low);
    // The rest relative to g, which is from 1 to 1.28.
    let rest = m.mul_c(rest, 0.85);
    let (square, square_low) = m.two_mul(x, x);
    let exponent = m.neg(square);
    let low = m.sub(rest, square_low);
    exp_product(m, quotient, exponent, low)
}

/// `erf(x)` for small `x`.
fn erf_near(m: &mut Math<'_>, x: Reg) -> Reg {
    let coefficients = if m.wide() { ERF_64 } else { ERF_32 };
    let square = m.mul(x, x);
    let poly = m.poly(square, coefficients);
    m.fma(poly, x, x)
}

pub(super) fn erfc(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let value = erfc_positive(m, size);
    let mirrored = m.c_sub(2.0, value);
    let left = m.lt(x, 0.0);
    let far = m.select(left, mirrored, value);
    let near = erf_near(m, x);
    let near = m.c_sub(1.0, near);
    let is_near = m.lt(size, 0.5);
    m.select(is_near, near, far)
}

pub(super) fn erf(m: &mut Math<'_>, x: Reg) -> Reg {
    let size = m.abs(x);
    let far = if m.wide() {
        let value = erfc_positive(m, size);
        m.c_sub(1.0, value)
    } else {
        let size = m.min_c(size, 4.0);
        let slope = m.poly(size, LOG_ERFC_32);
        let exponent = m.mul(slope, size);
        let exponent = m.neg(exponent);
        let value = exp_moderate(m, exponent);
        m.c_sub(1.0, value)
    };
    let far = m.with_sign(far, x);
    let near = erf_near(m, x);
    let limit = if m.wide() { 1.0 } else { 0.925 };
    let is_far = m.gt(size, limit);
    m.select(is_far, far, near)
}

/// By polynomials after Giles, "Approximating the erfinv function" (2011).
pub(super) fn erf_inv(m: &mut Math<'_>, x: Reg) -> Reg {
    let (less, more) = (m.c_sub(1.0, x), m.add_c(x, 1.0));
    let product = m.mul(less, more);
    let w = log(m, product);
    let w = m.neg(w);
    let root = m.sqrt(w);
    let slope = if m.wide() {
        let nearest = m.poly(w, ERF_INV_64[0]);
        let at = m.add_c(w, -3.125);
        let near = m.poly(at, ERF_INV_64[1]);
        let at = m.add_c(root, -3.25);
        let middle = m.poly(at, ERF_INV_64[2]);
        let at = m.add_c(root, -5.0);
        let far = m.poly(at, ERF_INV_64[3]);
        let (below_far, below_middle) = (m.lt(w, 16.0), m.lt(w, 6.25));
        let below_near = m.lt(w, 1.5);
        let value = m.select(below_far, middle, far);
        let value = m.select(below_middle, near, value);
        m.select(below_near, nearest, value)
    } else {
        let at = m.add_c(w, -2.5);
        let near = m.poly(at, ERF_INV_32[0]);
        let at = m.add_c(root, -3.0);
        let far = m.poly(at, ERF_INV_32[1]);
        let below = m.lt(w, 5.0);
        m.select(below, near, far)
    };
    let value = m.mul(slope, x);
    let infinity = m.c(f64::INFINITY);
    let infinity = m.with_sign(infinity, x);
    let end = m.eq(product, 0.0);
    let value = m.select(end, infinity, value);
    // Beyond 1 the logarithm is of a negative number.
    let inside = m.ge(product, 0.0);
    let nan = m.c(f64::NAN);
    m.select(inside, value, nan)
}
