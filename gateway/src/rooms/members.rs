//! Who gets a room's frames.

use crate::peer::Peer;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A list of viewers whose places do not move, so that a walk which pauses misses nobody: joining and leaving are O(1).
#[derive(Debug, Default)]
pub(crate) struct Members {
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    peers: Vec<Option<Arc<Peer>>>,
    free: Vec<usize>,
}

impl Members {
    /// Adds a viewer; its place is what [`Members::leave`] takes.
    pub(crate) fn join(&self, peer: Arc<Peer>) -> usize {
        let mut places = self.lock();
        match places.free.pop() {
            Some(place) => {
                places.peers[place] = Some(peer);
                place
            }
            None => {
                places.peers.push(Some(peer));
                places.peers.len() - 1
            }
        }
    }

    /// Removes the viewer at this place.
    pub(crate) fn leave(&self, place: usize) {
        let mut places = self.lock();
        places.peers[place] = None;
        places.free.push(place);
        if places.free.len() == places.peers.len() {
            // The last one has left: a hall of fifty thousand does not keep its list for ever.
            *places = Places::default();
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        let places = self.lock();
        places.peers.len() - places.free.len()
    }

    /// Places, some of them free.
    pub(crate) fn places(&self) -> usize {
        self.lock().peers.len()
    }

    /// Up to `count` places from `from` on, into `slice`; where to go on, or none at the end.
    pub(crate) fn slice(
        &self,
        from: usize,
        count: usize,
        slice: &mut Vec<Arc<Peer>>,
    ) -> Option<usize> {
        slice.clear();
        let places = self.lock();
        let end = from.saturating_add(count).min(places.peers.len());
        let from = from.min(end);
        slice.extend(places.peers[from..end].iter().flatten().cloned());
        (end < places.peers.len()).then_some(end)
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
