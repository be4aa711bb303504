//! The cheapest vertices that cut sources from sinks: a maximum flow (Dinic's algorithm).

use std::collections::VecDeque;

/// No capacity bounds this.
const UNBOUNDED: u64 = u64::MAX / 4;

/// A directed graph whose vertices cost something to cut.
#[derive(Debug, Default)]
struct Network {
    /// Where each edge leads, and what may still flow along it; edge `e ^ 1` is its reverse.
    edges: Vec<(u32, u64)>,
    /// The edges that leave each half of a vertex: `2 v` is where edges come in, `2 v + 1` where
    /// they go out; source and sink follow.
    leaving: Vec<Vec<u32>>,
    level: Vec<u32>,
    next: Vec<usize>,
}

/// Vertices that together lie on every way from a source to a sink, of least cost; of those the
/// nearest to the sinks. None if a way has only vertices that may not be cut.
///
/// `costs[v]` is None for a vertex that may not be cut.
pub fn cut(
    costs: &[Option<u64>],
    edges: &[(u32, u32)],
    sources: &[u32],
    sinks: &[u32],
) -> Option<Vec<u32>> {
    let (source, sink) = (2 * costs.len() as u32, 2 * costs.len() as u32 + 1);
    let mut network = Network {
        leaving: vec![Vec::new(); 2 * costs.len() + 2],
        level: vec![0; 2 * costs.len() + 2],
        ..Network::default()
    };
    for (v, cost) in costs.iter().enumerate() {
        network.edge(2 * v as u32, 2 * v as u32 + 1, cost.unwrap_or(UNBOUNDED));
    }
    edges.iter().for_each(|&(from, to)| network.edge(2 * from + 1, 2 * to, UNBOUNDED));
    sources.iter().for_each(|&v| network.edge(source, 2 * v, UNBOUNDED));
    sinks.iter().for_each(|&v| network.edge(2 * v + 1, sink, UNBOUNDED));
    while network.levels(source, sink) {
        network.next = vec![0; network.leaving.len()];
        while let Some(flow) = network.push(source, sink) {
            if flow >= UNBOUNDED / 2 {
                return None;
            }
        }
    }
    let reach = network.reaching(sink);
    let cut = |&v: &u32| reach[2 * v as usize + 1] && !reach[2 * v as usize];
    Some((0..costs.len() as u32).filter(cut).collect())
}

impl Network {
    fn edge(&mut self, from: u32, to: u32, capacity: u64) {
        self.leaving[from as usize].push(self.edges.len() as u32);
        self.edges.push((to, capacity));
        self.leaving[to as usize].push(self.edges.len() as u32);
        self.edges.push((from, 0));
    }

    /// How far each vertex is from the source, and whether the sink can be reached.
    fn levels(&mut self, source: u32, sink: u32) -> bool {
        self.level.fill(u32::MAX);
        self.level[source as usize] = 0;
        let mut queue = VecDeque::from([source]);
        while let Some(v) = queue.pop_front() {
            for &e in &self.leaving[v as usize] {
                let (to, left) = self.edges[e as usize];
                if left > 0 && self.level[to as usize] == u32::MAX {
                    self.level[to as usize] = self.level[v as usize] + 1;
                    queue.push_back(to);
                }
            }
        }
        self.level[sink as usize] != u32::MAX
    }

    /// Sends what one way along ascending levels holds.
    fn push(&mut self, source: u32, sink: u32) -> Option<u64> {
        let mut way: Vec<u32> = Vec::new();
        let mut v = source;
        while v != sink {
            let at = self.next[v as usize];
            let Some(&e) = self.leaving[v as usize].get(at) else {
                // A dead end: back, and never here again.
                let back = way.pop()?;
                v = self.edges[back as usize ^ 1].0;
                self.next[v as usize] += 1;
                continue;
            };
            let (to, left) = self.edges[e as usize];
            if left > 0 && self.level[to as usize] == self.level[v as usize] + 1 {
                way.push(e);
                v = to;
            } else {
                self.next[v as usize] += 1;
            }
        }
        let flow = way.iter().map(|&e| self.edges[e as usize].1).min()?;
        for e in way {
            self.edges[e as usize].1 -= flow;
            self.edges[e as usize ^ 1].1 += flow;
        }
        Some(flow)
    }

    /// The vertices from which the sink can still be reached.
    fn reaching(&self, sink: u32) -> Vec<bool> {
        let mut reach = vec![false; self.leaving.len()];
        reach[sink as usize] = true;
        let mut stack = vec![sink];
        while let Some(v) = stack.pop() {
            for &e in &self.leaving[v as usize] {
                let from = self.edges[e as usize].0;
                if self.edges[e as usize ^ 1].1 > 0 && !reach[from as usize] {
                    reach[from as usize] = true;
                    stack.push(from);
                }
            }
        }
        reach
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn one_stands_for_several() {
        // 0 -> 1 -> {2, 3}: 1 costs less than 2 and 3, and is nearer than 0.
        let edges = [(0, 1), (1, 2), (1, 3)];
        let cut_of = |costs: [u64; 4]| cut(&costs.map(Some), &edges, &[0], &[2, 3]);
        assert_eq!(cut_of([4, 4, 4, 4]), Some(vec![1]));
        assert_eq!(cut_of([3, 4, 4, 4]), Some(vec![0]));
        assert_eq!(cut_of([9, 9, 4, 4]), Some(vec![2, 3]));
        assert_eq!(cut_of([9, 9, 4, 0]), Some(vec![2, 3]));
    }

    #[test]
    fn what_cannot_be_cut() {
        assert_eq!(cut(&[None, None], &[(0, 1)], &[0], &[1]), None);
        assert_eq!(cut(&[None, Some(1)], &[(0, 1)], &[0], &[1]), Some(vec![1]));
        assert_eq!(cut(&[Some(1), Some(1)], &[], &[0], &[1]), Some(vec![]));
    }

    #[test]
    fn flows_that_must_be_taken_back() {
        // Two sources, a vertex in the middle that both sinks want, and ways round it.
        let edges = [(0, 2), (1, 2), (0, 3), (1, 4), (2, 3), (2, 4)];
        let costs = [5, 5, 1, 3, 3].map(Some);
        assert_eq!(cut(&costs, &edges, &[0, 1], &[3, 4]), Some(vec![3, 4]));
        let costs = [2, 2, 1, 3, 3].map(Some);
        assert_eq!(cut(&costs, &edges, &[0, 1], &[3, 4]), Some(vec![0, 1]));
    }
}
