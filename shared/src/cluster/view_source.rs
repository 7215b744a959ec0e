//! Which node is asked for its view of the cluster.

use super::dial::Dialer;
use super::view::{self, View, ViewError};
use redis::aio::MultiplexedConnection;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a node may take to tell its view before another one is asked. A busy master answers within milliseconds; one
/// that is stalled would keep us blind in the middle of its own failover.
const VIEW_TIMEOUT: Duration = Duration::from_millis(500);

/// A node that gave no view is passed over for this long, while there are others.
const PASSED_OVER_FOR: Duration = Duration::from_secs(5);

/// The node that is asked, and those that could be instead.
pub(super) struct ViewSource {
    dialer: Dialer,
    seeds: Vec<String>,
    known: Vec<String>,
    failed: HashMap<String, Instant>,
    asked: usize,
    current: Option<(String, MultiplexedConnection)>,
}

impl ViewSource {
    pub(super) fn new(dialer: Dialer, seeds: Vec<String>) -> Self {
        ViewSource {
            dialer,
            seeds,
            known: Vec::new(),
            failed: HashMap::new(),
            asked: 0,
            current: None,
        }
    }

    /// How many nodes there are to ask.
    pub(super) fn candidates(&self) -> usize {
        (self.seeds.len() + self.known.len()).max(1)
    }

    /// Learns the nodes of the cluster.
    pub(super) fn know(&mut self, nodes: Vec<String>) {
        self.failed
            .retain(|node, _| nodes.contains(node) || self.seeds.contains(node));
        self.known = nodes;
    }

    /// Another node next time.
    pub(super) fn turn(&mut self) {
        self.current = None;
    }

    /// The view of the node whose turn it is.
    ///
    /// # Errors
    /// That node's address, and why it gave none.
    pub(super) async fn ask(&mut self) -> Result<View, (String, ViewError)> {
        let (address, connection) = match self.current.take() {
            Some((address, connection)) => (address, Some(connection)),
            None => (self.next(), None),
        };
        let asking = ask(&self.dialer, &address, connection);
        let asked = tokio::time::timeout(VIEW_TIMEOUT, asking).await;
        match asked.unwrap_or_else(|_| Err(ViewError::Later("no answer in time".to_owned()))) {
            Ok((view, connection)) => {
                self.failed.remove(&address);
                self.current = Some((address, connection));
                Ok(view)
            }
            Err(error) => {
                self.failed.insert(address.clone(), Instant::now());
                Err((address, error))
            }
        }
    }

    /// The next in turn that did not just fail; the next in turn when all did.
    fn next(&mut self) -> String {
        let all: Vec<&String> = self.known.iter().chain(&self.seeds).collect();
        let in_turn = |step: usize| all.get(self.asked.wrapping_add(step) % all.len().max(1));
        let is_sound = |node: &str| {
            self.failed
                .get(node)
                .is_none_or(|at| at.elapsed() >= PASSED_OVER_FOR)
        };
        let step = (0..all.len())
            .find(|step| in_turn(*step).is_some_and(|node| is_sound(node)))
            .unwrap_or(0);
        let node = in_turn(step)
            .map(|node| (*node).clone())
            .unwrap_or_default();
        self.asked = self.asked.wrapping_add(step + 1);
        node
    }
}

async fn ask(
    dialer: &Dialer,
    address: &str,
    connection: Option<MultiplexedConnection>,
) -> Result<(View, MultiplexedConnection), ViewError> {
    let mut connection = match connection {
        Some(connection) => connection,
        None => dialer
            .open(address, VIEW_TIMEOUT)
            .await
            .map_err(view::of_opening)?,
    };
    let view = view::ask(&mut connection, address).await?;
    Ok((view, connection))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::RedisSettings;

    #[test]
    fn nodes_take_turns_and_the_failed_are_passed_over() {
        let nodes = ["a:1", "b:1", "c:1"].map(str::to_owned).to_vec();
        let mut source = ViewSource::new(Dialer::new(&RedisSettings::new(vec![])), nodes.clone());
        let mut turns = |failed: &[&str]| -> Vec<String> {
            let now = Instant::now();
            source.failed = failed
                .iter()
                .map(|node| ((*node).to_owned(), now))
                .collect();
            (0..4).map(|_| source.next()).collect()
        };
        assert_eq!(turns(&[]), ["a:1", "b:1", "c:1", "a:1"]);
        assert_eq!(turns(&["c:1"]), ["b:1", "a:1", "b:1", "a:1"]);
        assert_eq!(
            turns(&["a:1", "b:1", "c:1"]).len(),
            4,
            "when all failed they take turns still"
        );
        let distinct: std::collections::BTreeSet<_> =
            turns(&["a:1", "b:1", "c:1"]).into_iter().collect();
        assert_eq!(distinct.len(), 3);
    }
}
