//! Reductions, running reductions and order.

use jaxrs::prelude::*;

crate::cases! {
    [x, v, x234, small, p, logits, ties, special]

    "sum_all" => x.sum(..);
    "sum_last" => x234.sum(-1);
    "prod_all" => x.prod(..);
    "prod_last" => x234.prod(-1);
    "mean_all" => x.mean(..);
    "mean_last" => x234.mean(-1);
    "max_all" => x.max(..);
    "max_last" => x234.max(-1);
    "min_all" => x.min(..);
    "min_last" => x234.min(-1);
    "all_all" => x.all(..);
    "all_last" => x234.all(-1);
    "any_all" => x.any(..);
    "any_last" => x234.any(-1);
    "var_all" => x.var(..);
    "var_last" => x234.var(-1);
    "std_all" => x.std(..);
    "std_last" => x234.std(-1);
    "count_nonzero_all" => x.count_nonzero(..);
    "count_nonzero_last" => x234.count_nonzero(-1);
    "argmax_all" => x.argmax(..);
    "argmax_last" => x234.argmax(-1);
    "argmin_all" => x.argmin(..);
    "argmin_last" => x234.argmin(-1);
    "median_all" => x.median(..);
    "median_last" => x234.median(-1);
    "ptp_all" => x.ptp(..);
    "ptp_last" => x234.ptp(-1);
    "sum_two_kept" => x234.sum(keep([0, 2]));
    "prod_two_kept" => x234.prod(keep([0, 2]));
    "mean_two_kept" => x234.mean(keep([0, 2]));
    "max_two_kept" => x234.max(keep([0, 2]));
    "min_two_kept" => x234.min(keep([0, 2]));
    "var_two_kept" => x234.var(keep([0, 2]));
    "argmax_kept" => x234.argmax(keep(1));
    "argmax_ties" => (ties.argmax(1), ties.argmin(1));
    "argmax_nan" => (special.argmax(..), special.argmin(..));
    "max_nan" => special.max(..);
    "sum_small" => (small.sum(..), small.prod(..), small.cumsum(0), small.max(..));
    "sum_bool" => (p.sum(0), p.mean(..), p.all(0), p.any(1));
    "mean_bfloat16" => x234.astype(DType::BF16).mean(..).astype(DType::F32);
    "var_ddof" => (x234.var_ddof(.., 1.0), x234.std_ddof(0, 1.0));
    "logsumexp" => logits.logsumexp(-1);
    "logsumexp_infinite" => logits.full_like(f64::NEG_INFINITY).logsumexp(-1);
    "norm" => (x234.norm(..), x234.norm(-1));
    "cumsum" => [0, 1, 2].map(|axis| x234.cumsum(axis));
    "cumprod" => [0, 1, 2].map(|axis| x234.cumprod(axis));
    "cummax" => (x234.cummax(1), x234.cummin(2));
    "cumlogsumexp" => x234.cumlogsumexp(1);
    "diff" => (x234.diff(1, -1), x234.diff(2, 1));
    "quantile" => (x234.quantile(0.3, 1), x234.median(keep([0, 2])));
    "sort" => (x234.sort(-1), x234.sort(0), x234.sort_descending(-1));
    "sort_special" => special.sort(0);
    "argsort" => (ties.argsort(1), ties.argsort_descending(1));
    "argsort_axis" => x234.argsort(0);
    "top_k" => ties.top_k(2);
    "searchsorted" => {
        let sorted = v.sort(0);
        (sorted.searchsorted(x, false), sorted.searchsorted(x, true))
    };
    "searchsorted_ties" => {
        let (first, second) = (ties.slice(i![0]), ties.slice(i![1]));
        let sorted = first.sort(0);
        (sorted.searchsorted(&(second + 2), false), sorted.searchsorted(&first, true))
    };
}
