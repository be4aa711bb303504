//! Control flow, and transforms of functions with it.

use jaxrs::prelude::*;

/// A step of a recurrent network, and what it puts out.
fn rnn(w: &Array) -> impl Fn(&Array, &Array) -> (Array, Array) {
    move |h, x| {
        let h = (w.dot(h) + x).tanh();
        let out = h.sum(..);
        (h, out)
    }
}

fn loss_scan(w: &Array, h: &Array, xs: &Array) -> Array {
    let (h, ys) = scan(rnn(w), h, xs);
    h.square().sum(..) + ys.sin().sum(..)
}

fn copies(arrays: [&Array; 3]) -> (Array, Array, Array) {
    let [a, b, c] = arrays.map(Array::clone);
    (a, b, c)
}

fn first(xs: &Array, count: u64) -> Array {
    xs.split([count], 0).swap_remove(0)
}

fn sin(x: &Array) -> Array {
    x.sin()
}

fn cos(x: &Array) -> Array {
    x.cos()
}

fn square(x: &Array) -> Array {
    x * x
}

const BRANCHES: [&dyn Fn(&Array) -> Array; 3] = [&sin, &cos, &square];

fn clipped(x: &Array) -> Array {
    custom_vjp(
        square,
        |x: &Array| (x * x, x.clone()),
        |x: &Array, ct: &Array| (2.0 * x * ct).clip(-0.5, 0.5),
    )(x)
}

fn log1pexp(x: &Array) -> Array {
    custom_jvp(
        |x: &Array| x.exp().log1p(),
        |x: &Array, t: &Array| (log1pexp(x), (1.0 - 1.0 / (1.0 + x.exp())) * t),
    )(x)
}

crate::cases! {
    [x, v, w, h, xs, s, n]

    "scan" => scan(rnn(w), h, xs);
    "scan_reverse" => scan_reverse(rnn(w), h, xs);
    "scan_tree" => scan(
        |(a, b): &(Array, Array), (x, y): &(Array, Array)| ((a + x, b * 0.5), (y - a, b.clone())),
        &(h.clone(), h.clone()),
        &(xs.clone(), xs * 2),
    );
    "fori_loop" => fori_loop(0..5, |i, h: &Array| w.dot(h).sin() + i.astype(DType::F32), h);
    "fori_loop_none" => fori_loop(3..3, |_, h: &Array| h + 1, h);
    "while_loop" => while_loop(
        |(y, _): &(Array, Array)| y.lt(50),
        |(y, count): &(Array, Array)| (y * 2 + 1, count + 1),
        &(s.clone(), Array::scalar(0i32)),
    );
    "cond" => [s.gt(0), s.lt(0)].map(|p| cond(&p, sin, cos, h));
    "switch" => [-5, -1, 0, 9].map(|d| switch(&(n + d), &BRANCHES, h));
    "map" => jaxrs::map(|x: &Array| x.square().sum(..), xs);
    "map_batched" => map_batched(|x: &Array| x.tanh().sum(..), xs, 4);
    "associative_scan" => associative_scan(|a: &Array, b: &Array| a * b, xs);
    "associative_pairs" => associative_scan(
        |(a, b): &(Array, Array), (c, d): &(Array, Array)| (a * c, b * c + d),
        &(xs.sin(), xs.clone()),
    );
    "grad_scan" => grad(|(w, h, xs): &(Array, Array, Array)| loss_scan(w, h, xs))(&copies([w, h, xs]));
    "grad_scan_reverse" => grad(|(w, h, xs): &(Array, Array, Array)| {
        scan_reverse(rnn(w), h, xs).0.square().sum(..)
    })(&copies([w, h, xs]));
    "grad_grad_scan" => grad(|h: &Array| {
        grad(|h: &Array| loss_scan(w, h, xs))(h).square().sum(..)
    })(h);
    "jvp_scan" => jvp(
        |(w, h): &(Array, Array)| scan(rnn(w), h, xs),
        &(w.clone(), h.clone()),
        &(w * 0.1, h.clone()),
    );
    "grad_fori" => grad(|s: &Array| fori_loop(0..4, |_, y: &Array| y * s + y.sin(), s))(s);
    "jvp_while" => jvp(
        |s: &Array| while_loop(|y: &Array| y.lt(20), |y: &Array| y * y + 1, s),
        s,
        &Array::scalar(1.0f32),
    );
    "grad_cond" => [-10, 10].map(|t| grad(|h: &Array| {
        cond(&h.sum(..).gt(t), |h: &Array| h.pow(3).sum(..), |h: &Array| h.cos().sum(..), h)
    })(h));
    "grad_switch" => grad(|h: &Array| switch(n, &BRANCHES, h).square().sum(..))(h);
    "grad_scan_cond" => grad(|(h, xs): &(Array, Array)| {
        let step = |c: &Array, x: &Array| {
            (cond(&x.sum(..).gt(0), |c: &Array| c * x.tanh(), |c: &Array| c.sin(), c), ())
        };
        scan(step, h, xs).0.sum(..)
    })(&(h.clone(), xs.clone()));
    "grad_associative" => grad(|xs: &Array| {
        associative_scan(|a: &Array, b: &Array| a * b, xs).square().sum(..)
    })(xs);
    "vmap_scan" => vmap(|h: &Array| scan(rnn(w), h, xs))(&first(xs, 4));
    "vmap_while" => vmap(|s: &Array| while_loop(|y: &Array| y.lt(9), |y: &Array| y * 2 + 1, s))(v);
    "vmap_cond" => vmap(|x: &Array| cond(&x.sum(..).gt(0), sin, cos, x))(xs);
    "vmap_grad_scan" => vmap(|h: &Array| grad(|h: &Array| loss_scan(w, h, xs))(h))(&first(xs, 2));
    "grad_vmap" => grad(|(w, xs): &(Array, Array)| {
        vmap(|x: &Array| w.dot(x).tanh())(xs).square().sum(..)
    })(&(w.clone(), xs.clone()));
    "jacfwd" => jacfwd(|x: &Array| x.tanh().sum(0) * first(x, 1).ravel())(x);
    "jacrev" => jacrev(|x: &Array| x.tanh().sum(0) * first(x, 1).ravel())(x);
    "hessian" => hessian(|h: &Array| (h.sin() * h.sum(..)).sum(..))(h);
    "vjp" => vjp(|(w, h): &(Array, Array)| w.dot(h).sin(), &(w.clone(), h.clone())).1(h);
    "linearize" => linearize(|h: &Array| h.exp() * h.sum(..), h).1(h);
    "checkpoint" => grad(|args: &(Array, Array, Array)| {
        checkpoint(|(w, h, xs): &(Array, Array, Array)| loss_scan(w, h, xs))(args)
    })(&copies([w, h, xs]));
    "checkpoint_scan" => grad(|(w, h): &(Array, Array)| {
        let step = |h: &Array, x: &Array| {
            let again = checkpoint(|(h, x): &(Array, Array)| rnn(w)(h, x));
            again(&(h.clone(), x.clone()))
        };
        scan(step, h, xs).0.sum(..)
    })(&(w.clone(), h.clone()));
    "stop_gradient" => grad(|h: &Array| (stop_gradient(h) * h.square()).sum(..))(h);
    "custom_vjp" => grad(|h: &Array| clipped(&h.sin()).sum(..))(h);
    "custom_vjp_vmap" => vmap(grad(|h: &Array| clipped(h).sum(..)))(xs);
    "custom_jvp" => grad(|h: &Array| log1pexp(&(h * 3)).sum(..))(h);
    "custom_jvp_second" => grad(grad(|s: &Array| log1pexp(&(s * 3))))(s);
}
