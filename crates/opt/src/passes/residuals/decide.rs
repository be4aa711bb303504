//! Which values a loop saves.

use super::Info;
use super::graph::{Graph, Kind, NodeId};
use super::sites::{self, Site, Stacks};
use crate::passes::counter::{Counted, Line};
use crate::passes::flow;
use crate::passes::stacks::{peel, previous};
use jaxrs_ir::{Function, OpId, ValueDef, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Loops of fewer iterations save nothing for later ones.
const MIN_TRIPS: u64 = 2;
/// Cheap instructions that may be run again for each byte that is not saved.
const MAX_WORK: u64 = 25;
/// Ops that may be run again for one loop.
const MAX_OPS: usize = 400;

/// What is saved in all, at most, in parts of a carry that needs no memory of its own instead.
const WORTH: u64 = 48;
/// Carries of a loop that are tried.
const MAX_CARRIES: usize = 16;

/// What is to be saved, and what is to be made of it.
#[derive(Debug)]
pub(super) struct Plan {
    /// The nodes of the loop's body, and more that could be computed there.
    pub graph: Graph,
    /// The nodes to save, each with the carry that does already.
    pub saved: Vec<(NodeId, Option<usize>)>,
    /// Carries that are their next values an iteration before: of each node the carry and the next
    /// value's node.
    pub shifted: FxHashMap<NodeId, (usize, NodeId)>,
    /// Where slots are read.
    pub sites: Vec<Site>,
    /// The slot written in an iteration, as a function of the counter.
    pub slot: Line,
    /// The same, a value of the body.
    pub index: ValueId,
    /// How often the body runs.
    pub trips: u64,
}

/// What a loop is to save, if that is not what it saves.
pub(super) fn decide(f: &Function, op: OpId, info: &Info) -> Option<Plan> {
    let counter = Counted::of(f, op).filter(|c| c.trips >= MIN_TRIPS)?;
    let mut graph = Graph::new(f, op, counter.number(f)?);
    let mut stacks = sites::stacks(f, &counter, &mut graph, info)?;
    let sites = sites::sites(f, &counter, &mut stacks, &mut graph, info);
    if sites.is_empty() {
        return None;
    }
    let problem = Problem::new(f, op, counter.trips, &mut graph, &stacks, &sites, info);
    let best = problem.best(&graph)?;

    let now: FxHashSet<NodeId> =
        stacks.all.iter().filter(|s| s.read && !s.pinned).map(|s| s.node).collect();
    let read = stacks.all.iter().filter(|s| s.read && !s.pinned);
    let before: u64 = read.map(|s| graph.nodes[s.node].ty.bytes()).sum();
    let stop = |node: NodeId| best.saved.contains(&node);
    let again = graph.closure(&problem.sinks_of(&best.shifted, &graph), stop);
    let work: u64 = again.iter().map(|&node| graph.work(f, node)).sum();
    let already: u64 = {
        let stop = |node: NodeId| now.contains(&node) || problem.costs[node] == Some(0);
        let ops = graph.closure(&problem.sinks, stop);
        ops.iter().map(|&node| graph.work(f, node)).sum()
    };
    let less = before.saturating_sub(best.cost);
    let better = best.cost < before && work <= already + MAX_WORK * less
        || best.cost == before && (work < already || best.rests);
    if !better || again.len() > MAX_OPS {
        return None;
    }
    let kept = |node: NodeId| {
        let mut of = stacks.all.iter().filter(|s| s.node == node);
        of.clone().find(|s| s.pinned).or_else(|| of.next()).map(|s| s.carry)
    };
    let stored = best
        .saved
        .iter()
        .filter(|&&node| !matches!(graph.nodes[node].kind, Kind::Outside(_) | Kind::Counter));
    let saved = stored.map(|&node| (node, kept(node))).collect();
    let shifted = best.shifted.iter().map(|&h| (h, problem.next[&h])).collect::<FxHashMap<_, _>>();
    let (slot, index, trips) = (stacks.slot, stacks.index, counter.trips);
    Some(Plan { graph, saved, shifted, sites, slot, index, trips })
}

/// What must be had, and what each node costs to save.
struct Problem {
    costs: Vec<Option<u64>>,
    sources: Vec<NodeId>,
    sinks: Vec<NodeId>,
    /// The next values of carries.
    next: FxHashMap<NodeId, (usize, NodeId)>,
    /// Carries that need no memory of their own if their next values are saved in their stead.
    resting: FxHashSet<NodeId>,
    trips: u64,
}

/// Nodes that suffice.
#[derive(Clone, Debug)]
struct Choice {
    saved: FxHashSet<NodeId>,
    shifted: Vec<NodeId>,
    cost: u64,
    /// Whether a carry is shifted to be no memory.
    rests: bool,
}

impl Problem {
    fn new(
        f: &Function,
        op: OpId,
        trips: u64,
        graph: &mut Graph,
        stacks: &Stacks,
        sites: &[Site],
        info: &Info,
    ) -> Problem {
        let body = f.ops[op].regions[1];
        let pinned: FxHashSet<NodeId> =
            stacks.all.iter().filter(|s| s.pinned).map(|s| s.node).collect();
        let mut next = FxHashMap::default();
        for node in 0..graph.nodes.len() {
            if let Kind::Carry(carry) = graph.nodes[node].kind
                && let Some(value) = graph.known(f, f.blocks[body].yields[carry])
                && matches!(graph.nodes[value].kind, Kind::Once | Kind::Cheap(_))
            {
                next.insert(node, (carry, value));
            }
        }
        let (mut costs, mut sources) = (Vec::new(), Vec::new());
        for (id, node) in graph.nodes.iter().enumerate() {
            let cost = match node.kind {
                Kind::Counter => 0,
                // It costs its bytes once, if nothing else keeps it, and no slots.
                Kind::Outside(value) if lasts(f, value, op, info) => 0,
                Kind::Outside(_) => (node.ty.bytes() / trips).max(1) - 1,
                _ if pinned.contains(&id) => 0,
                Kind::Once | Kind::Cheap(_) | Kind::Carry(_) => node.ty.bytes(),
            };
            costs.push(Some(cost));
            let source = match node.kind {
                Kind::Once | Kind::Carry(_) => true,
                Kind::Outside(_) => cost > 0,
                Kind::Counter | Kind::Cheap(_) => false,
            };
            if source {
                sources.push(id);
            }
        }
        let mut sinks: Vec<NodeId> =
            sites.iter().flat_map(|s| s.sinks.iter().map(|sink| sink.1)).collect();
        sinks.sort_unstable();
        sinks.dedup();
        let rests = |node: &NodeId| {
            let ty = &graph.nodes[*node].ty;
            let meets = |site: &Site| f.blocks[site.block].arguments.iter().any(|&v| f.ty(v) == ty);
            sites.iter().all(meets) && rests(f, op, next[node].0, info)
        };
        let resting = next.keys().copied().filter(rests).collect();
        Problem { costs, sources, sinks, next, resting, trips }
    }

    /// The choice of least cost: carries are taken from the iteration before one after the other,
    /// as long as that costs less, or the carry then lies in its slot.
    fn best(&self, graph: &Graph) -> Option<Choice> {
        let mut best = self.choice(graph, &[])?;
        let mut carries = graph.closure(&self.sinks, |_| false);
        carries.retain(|node| self.next.contains_key(node));
        carries.truncate(MAX_CARRIES);
        for carry in carries {
            let shifted: Vec<NodeId> = best.shifted.iter().copied().chain([carry]).collect();
            match self.choice(graph, &shifted) {
                Some(choice) if choice.cost < best.cost => best = choice,
                Some(choice) if choice.cost == best.cost && self.rests(graph, &best, carry) => {
                    best = Choice { rests: true, ..choice };
                }
                _ => {}
            }
        }
        Some(best)
    }

    /// Whether a carry that would be saved is worth taking from the slot of its next value.
    fn rests(&self, graph: &Graph, best: &Choice, carry: NodeId) -> bool {
        let bytes = graph.nodes[carry].ty.bytes();
        self.resting.contains(&carry)
            && best.saved.contains(&carry)
            && self.costs[carry] == Some(bytes)
            && bytes.saturating_mul(WORTH) >= best.cost.saturating_mul(self.trips)
    }

    /// What must be had if some carries are taken from the iteration before.
    fn sinks_of(&self, shifted: &[NodeId], graph: &Graph) -> Vec<NodeId> {
        let mut sinks = self.sinks.clone();
        sinks.extend(shifted.iter().map(|h| self.next[h].1));
        sinks.retain(|&node| !matches!(graph.nodes[node].kind, Kind::Outside(_)));
        sinks.sort_unstable();
        sinks.dedup();
        sinks
    }

    fn choice(&self, graph: &Graph, shifted: &[NodeId]) -> Option<Choice> {
        // A next value that is made of carries taken from before would need those of the
        // iteration before that: it is saved itself.
        let available = |node: NodeId| self.costs[node] == Some(0);
        let forced: FxHashSet<NodeId> = shifted
            .iter()
            .map(|h| self.next[h].1)
            .filter(|&u| graph.closure(&[u], available).iter().any(|n| shifted.contains(n)))
            .collect();
        let costs: Vec<Option<u64>> = (0..graph.nodes.len())
            .map(|n| if forced.contains(&n) { Some(0) } else { self.costs[n] })
            .collect();
        let mut edges = Vec::new();
        for (id, node) in graph.nodes.iter().enumerate() {
            let operands = if forced.contains(&id) { &[][..] } else { &node.operands };
            edges.extend(operands.iter().map(|&o| (o as u32, id as u32)));
        }
        let sources: Vec<u32> =
            self.sources.iter().filter(|n| !shifted.contains(n)).map(|&n| n as u32).collect();
        let sinks: Vec<u32> = self.sinks_of(shifted, graph).into_iter().map(|n| n as u32).collect();
        let cut = flow::cut(&costs, &edges, &sources, &sinks)?;
        let saved: FxHashSet<NodeId> = cut.into_iter().map(|n| n as usize).chain(forced).collect();
        let cost = saved.iter().map(|&n| self.costs[n].unwrap_or(0)).sum();
        Some(Choice { saved, shifted: shifted.to_vec(), cost, rests: false })
    }
}

/// Whether a carry can lie in the slot that its value is saved in: see [`previous`] and [`peel`].
fn rests(f: &Function, op: OpId, carry: usize, info: &Info) -> bool {
    let Some(block) = info.home[op].expand() else { return false };
    previous::is_spared(f, block, op, carry)
        && peel::is_small(f, f.ops[op].regions[1])
        && lasts(f, f.ops[op].operands[carry], op, info)
}

/// Whether a value from outside of the loop lives on after it anyway.
fn lasts(f: &Function, value: ValueId, op: OpId, info: &Info) -> bool {
    match f.values[value].def {
        ValueDef::Argument(block, _) if block == f.body => true,
        _ => super::super::super::fuse::constant(f, value).is_some() || info.used_after(value, op),
    }
}
