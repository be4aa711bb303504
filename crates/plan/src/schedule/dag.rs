//! A directed graph that stays acyclic while edges are added (Pearce and Kelly, "A dynamic
//! topological sort algorithm for directed acyclic graphs", 2006).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nodes `0..n` in a topological order that is kept up to date.
#[derive(Clone, Debug)]
pub(crate) struct Dag {
    pub(crate) successors: Vec<Vec<u32>>,
    pub(crate) predecessors: Vec<Vec<u32>>,
    position: Vec<u32>,
    seen: Vec<u32>,
    round: u32,
    /// Visits left for edges that go against the present order.
    budget: usize,
}

impl Dag {
    /// No edges; the order is `0..n`.
    pub(crate) fn new(n: usize) -> Dag {
        Dag {
            successors: vec![Vec::new(); n],
            predecessors: vec![Vec::new(); n],
            position: (0..n as u32).collect(),
            seen: vec![0; n],
            round: 0,
            budget: 4_000_000,
        }
    }

    /// Adds an edge unless it closes a cycle; says whether it stands.
    pub(crate) fn add(&mut self, from: u32, to: u32) -> bool {
        if from == to {
            return false;
        }
        if self.position[from as usize] > self.position[to as usize] && !self.reorder(from, to) {
            return false;
        }
        self.successors[from as usize].push(to);
        self.predecessors[to as usize].push(from);
        true
    }

    /// Takes back the edge that was added last to both of its ends.
    pub(crate) fn remove(&mut self, from: u32, to: u32) {
        let forward = &mut self.successors[from as usize];
        let at = forward.iter().rposition(|&t| t == to).expect("an edge that was added");
        forward.swap_remove(at);
        let backward = &mut self.predecessors[to as usize];
        let at = backward.iter().rposition(|&f| f == from).expect("an edge that was added");
        backward.swap_remove(at);
    }

    /// Moves `to` and what follows it behind `from`; false if `from` follows `to`.
    fn reorder(&mut self, from: u32, to: u32) -> bool {
        let (low, high) = (self.position[to as usize], self.position[from as usize]);
        self.round += 1;
        let mut forward = Vec::new();
        let mut stack = vec![to];
        self.seen[to as usize] = self.round;
        while let Some(node) = stack.pop() {
            if node == from || self.budget == 0 {
                return false;
            }
            self.budget -= 1;
            forward.push(node);
            for &next in &self.successors[node as usize] {
                if self.seen[next as usize] != self.round && self.position[next as usize] <= high {
                    self.seen[next as usize] = self.round;
                    stack.push(next);
                }
            }
        }
        let mut backward = Vec::new();
        let mut stack = vec![from];
        self.seen[from as usize] = self.round;
        while let Some(node) = stack.pop() {
            self.budget = self.budget.saturating_sub(1);
            backward.push(node);
            for &next in &self.predecessors[node as usize] {
                if self.seen[next as usize] != self.round && self.position[next as usize] >= low {
                    self.seen[next as usize] = self.round;
                    stack.push(next);
                }
            }
        }
        forward.sort_by_key(|&n| self.position[n as usize]);
        backward.sort_by_key(|&n| self.position[n as usize]);
        let nodes: Vec<u32> = backward.into_iter().chain(forward).collect();
        let mut positions: Vec<u32> = nodes.iter().map(|&n| self.position[n as usize]).collect();
        positions.sort_unstable();
        for (node, position) in nodes.into_iter().zip(positions) {
            self.position[node as usize] = position;
        }
        true
    }
}

/// The nodes of an acyclic graph, each after its predecessors; of those that could be next, the one
/// with the least key.
pub(crate) fn sorted<K: Ord>(
    predecessors: &[Vec<u32>],
    successors: &[Vec<u32>],
    key: impl Fn(u32) -> K,
) -> Vec<u32> {
    let mut waits: Vec<usize> = predecessors.iter().map(Vec::len).collect();
    let entry = |node: u32| Reverse((key(node), node));
    let free = (0..waits.len() as u32).filter(|&node| waits[node as usize] == 0);
    let mut ready: BinaryHeap<_> = free.map(entry).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(Reverse((_, node))) = ready.pop() {
        order.push(node);
        for &next in &successors[node as usize] {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                ready.push(entry(next));
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::Dag;

    #[test]
    fn cycles_are_refused() {
        let mut dag = Dag::new(4);
        assert!(dag.add(0, 1) && dag.add(1, 2) && dag.add(3, 0));
        assert!(!dag.add(2, 3));
        assert!(dag.add(3, 2));
        for (from, list) in dag.successors.iter().enumerate() {
            for &to in list {
                assert!(dag.position[from] < dag.position[to as usize]);
            }
        }
    }
}
