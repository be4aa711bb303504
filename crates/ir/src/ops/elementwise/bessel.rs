//! Bessel functions.

use super::gamma::in_double;
use super::math::Math;
use crate::builder::Builder;
use crate::function::ValueId;
use jaxrs_kernel::{Compare, DType, Reg};

/// `e^-x I1(x) / x` in `(x - 4) / 4` for `x` to 8, to 2^-57.6.
const NEAR: &[f64] = &[
    0.044687709875608835,
    -0.06112433802966629,
    0.0680575999095117,
    -0.06848260620582587,
    0.06376740371339987,
    -0.055280039227031195,
    0.04467457262145668,
    -0.03367135552038965,
    0.023686016954849554,
    -0.015571309250841877,
    0.009583962175164674,
    -0.005534567805526817,
    0.00300576228626227,
    -0.0015388747317947517,
    0.0007445128372219615,
    -0.0003411755612949758,
    0.00014841998188742177,
    -6.142449551881886e-05,
    2.423601923791569e-05,
    -9.135363958515247e-06,
    3.2910526234061213e-06,
    -1.133767391162347e-06,
    3.783846699080876e-07,
    -1.2363007081073819e-07,
    3.665689338706044e-08,
    -9.194728883115672e-09,
    3.055557602162718e-09,
    -1.3851667483952833e-09,
    3.0644844497014407e-10,
];
/// `sqrt(x) e^-x I1(x)` in `16 / x - 1` for `x` from 8, to 2^-55.
const FAR: &[f64] = &[
    0.38939845902587233,
    -0.009749577193235678,
    -0.00021923576383157283,
    -1.5038547206182384e-05,
    -1.8349102436449497e-06,
    -3.483854196885746e-07,
    -1.0001081113185549e-07,
    -4.313117384796322e-08,
    -2.339385219927986e-08,
    -8.413691022123467e-09,
    6.847244854537189e-09,
    1.3973930258863917e-08,
    5.570462839968525e-09,
    -7.477192030497368e-09,
    -6.937092124351208e-09,
    3.1307773059924986e-09,
    4.750003436417765e-09,
    -1.0954124412853377e-09,
    -2.2486763151554235e-09,
    2.7985324812542197e-10,
    6.700888060661188e-10,
    -3.687057251718911e-11,
    -9.337323049817692e-11,
];

/// `e^-|x| I1(x)`, computed in `f64`.
pub(super) fn bessel_i1e(m: &mut Math<'_>, x: Reg) -> Reg {
    in_double(m, x, |m, x| {
        let size = m.abs(x);
        let at = m.fma_cc(size, 0.25, -1.0);
        let near = m.poly(at, NEAR);
        let near = m.mul(near, size);
        let sixteen = m.c(16.0);
        let at = m.div(sixteen, size);
        let at = m.add_c(at, -1.0);
        let far = m.poly(at, FAR);
        let root = m.sqrt(size);
        let far = m.div(far, root);
        let is_near = m.lt(size, 8.0);
        let value = m.select(is_near, near, far);
        m.with_sign(value, x)
    })
}

/// `e^-x I0(x)` in `(x - 4) / 4` for `x` to 8, to 2^-51 (interpolated at the Chebyshev nodes).
const NEAR_0: &[f64] = &[
    0.2070019212239867,
    -0.11300432688620549,
    0.09451562853995103,
    -0.08904344136075991,
    0.08734341617552291,
    -0.08496338091615124,
    0.07927522590716898,
    -0.06954119561742342,
    0.056777032019843215,
    -0.04298594945226738,
    0.03017791202356886,
    -0.019682654708082413,
    0.011960077903963348,
    -0.006792399792271578,
    0.0036171264596770616,
    -0.0018118870527295522,
    0.0008563152483951447,
    -0.0003829015089457559,
    0.0001624054672701359,
    -6.550956130635514e-05,
    2.5202271984440893e-05,
    -9.25059710625537e-06,
    3.2293850630678377e-06,
    -1.0891964284507317e-06,
    3.675592893288293e-07,
    -1.1339523685907105e-07,
    2.6273368345256394e-08,
    -7.860369707508212e-09,
    4.469372581856615e-09,
    -1.1662904878442954e-09,
];
/// `sqrt(x) e^-x I0(x)` in `16 / x - 1` for `x` from 8, to 2^-51.
const FAR_0: &[f64] = &[
    0.4021765094450081,
    0.0033605519836678913,
    0.00013621607438951463,
    1.114303378845176e-05,
    1.4838476780922646e-06,
    2.9735992084667734e-07,
    8.872014585661555e-08,
    3.932512321137824e-08,
    2.156780676115673e-08,
    7.559364098665437e-09,
    -6.856484545962442e-09,
    -1.3427511481900905e-08,
    -5.0175940345046716e-09,
    7.600254486433509e-09,
    6.522264862032271e-09,
    -3.5862834111582305e-09,
    -4.5305710768621196e-09,
    1.6084886155781772e-09,
    2.163681278413876e-09,
    -6.327909921997027e-10,
    -6.494591114401118e-10,
    1.7698085539456536e-10,
    9.114760157514253e-11,
    -2.4421972688131832e-11,
];

/// `e^-|x| I0(x)`, written out in ops: StableHLO has none for it.
pub(super) fn i0e(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId, String> {
    let dtype = b.ty(x).dtype;
    // Sixteen bits are too few for the coefficients.
    let wide = if matches!(dtype, DType::BF16 | DType::F16) { DType::F32 } else { dtype };
    let x = b.convert(x, wide)?;
    let size = b.elementwise("stablehlo.abs", &[x])?;
    let [quarter, one, eight, sixteen] = [0.25, 1.0, 8.0, 16.0].map(|c| b.full_like(x, c));
    let (one, eight) = (one?, eight?);
    let scaled = b.multiply(size, quarter?)?;
    let at = b.subtract(scaled, one)?;
    let near = polynomial(b, at, NEAR_0)?;
    let far_size = b.elementwise("stablehlo.maximum", &[size, eight])?;
    let scaled = b.divide(sixteen?, far_size)?;
    let at = b.subtract(scaled, one)?;
    let far = polynomial(b, at, FAR_0)?;
    let root = b.elementwise("stablehlo.sqrt", &[far_size])?;
    let far = b.divide(far, root)?;
    let is_near = b.compare(Compare::Lt, size, eight)?;
    let value = b.select(is_near, near, far)?;
    b.convert(value, dtype)
}

fn polynomial(b: &mut Builder<'_>, x: ValueId, coefficients: &[f64]) -> Result<ValueId, String> {
    let mut value = b.full_like(x, 0.0)?;
    for &coefficient in coefficients.iter().rev() {
        let product = b.multiply(value, x)?;
        let coefficient = b.full_like(x, coefficient)?;
        value = b.add(product, coefficient)?;
    }
    Ok(value)
}
