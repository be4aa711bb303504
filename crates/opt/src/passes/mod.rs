//! Rewrites of the SSA function, one file each. Each is close to linear in the number of ops.

pub mod algebra;
pub mod barriers;
pub mod canonicalize;
pub mod counter;
pub mod cse;
pub mod dce;
pub mod flow;
pub mod fold;
pub mod hoist;
pub mod inline;
pub mod loops;
pub mod masks;
pub mod onehot;
pub mod pads;
pub mod private;
pub mod products;
pub mod region;
pub mod remat;
pub mod residuals;
pub mod rewrite;
pub mod samples;
pub mod sink;
pub mod slots;
pub mod split;
pub mod stacks;
pub mod trips;
