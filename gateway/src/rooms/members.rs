//! Who gets a room's frames.

use crate::peer::Peer;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places of one run: a walk serves so many viewers before others get a turn on its thread. A write takes some 2 us, so
/// half a millisecond.
pub(crate) const RUN: usize = 256;

/// A list of viewers whose places do not move, so that a walk which pauses misses nobody: joining and leaving are O(1).
///
/// A walk takes a run as a whole and gives it back, instead of counting itself in and out of each viewer. Whoever joins
/// or leaves a run meanwhile does so in a copy of it.
#[derive(Debug, Default)]
pub(crate) struct Members {
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    runs: Vec<Arc<Vec<Option<Arc<Peer>>>>>,
    /// Of all runs; none is missing in between.
    count: usize,
    free: Vec<usize>,
}

/// The viewers of a run, as they were when it was taken.
#[derive(Debug)]
pub(crate) struct Run(Arc<Vec<Option<Arc<Peer>>>>);

impl Run {
    /// All of them.
    pub(crate) fn peers(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.0.iter().flatten()
    }
}

impl Members {
    /// Adds a viewer; its place is what [`Members::leave`] takes.
    pub(crate) fn join(&self, peer: Arc<Peer>) -> usize {
        let mut places = self.lock();
        if let Some(place) = places.free.pop() {
            Arc::make_mut(&mut places.runs[place / RUN])[place % RUN] = Some(peer);
            return place;
        }
        let place = places.count;
        places.count += 1;
        match places.runs.get_mut(place / RUN) {
            Some(run) => Arc::make_mut(run).push(Some(peer)),
            None => places.runs.push(Arc::new(vec![Some(peer)])),
        }
        place
    }

    /// Removes the viewer at this place.
    pub(crate) fn leave(&self, place: usize) {
        let mut places = self.lock();
        Arc::make_mut(&mut places.runs[place / RUN])[place % RUN] = None;
        places.free.push(place);
        if places.free.len() == places.count {
            // The last one has left: a hall of fifty thousand does not keep its list for ever.
            *places = Places::default();
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        let places = self.lock();
        places.count - places.free.len()
    }

    /// How many runs there are.
    pub(crate) fn runs(&self) -> usize {
        self.lock().runs.len()
    }

    /// The viewers of a run; none past the last.
    pub(crate) fn run(&self, index: usize) -> Option<Run> {
        self.lock().runs.get(index).map(Arc::clone).map(Run)
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Tenths;

    fn peer() -> Arc<Peer> {
        Arc::new(Peer::events(None, Tenths(36_000)))
    }

    fn peers(members: &Members) -> usize {
        (0..members.runs())
            .filter_map(|index| members.run(index))
            .map(|run| run.peers().count())
            .sum()
    }

    #[test]
    fn places_are_used_again_and_given_back() {
        let members = Members::default();
        let places: Vec<_> = (0..RUN + 3).map(|_| members.join(peer())).collect();
        assert_eq!((members.runs(), members.len()), (2, RUN + 3));
        members.leave(places[7]);
        assert_eq!(peers(&members), RUN + 2);
        assert_eq!(members.join(peer()), places[7]);
        for place in places {
            members.leave(place);
        }
        assert_eq!((members.runs(), members.len()), (0, 0));
    }

    #[test]
    fn a_walk_under_way_is_not_changed_by_who_comes_and_goes() {
        let members = Members::default();
        let first = members.join(peer());
        let run = members.run(0).unwrap();
        members.join(peer());
        members.leave(first);
        assert_eq!(run.peers().count(), 1, "as it was");
        assert!(Arc::ptr_eq(
            run.peers().next().unwrap(),
            &run.0[first].clone().unwrap()
        ));
        drop(run);
        assert_eq!(peers(&members), 1, "and as it is");
    }
}
