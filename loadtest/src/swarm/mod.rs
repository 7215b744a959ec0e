//! The load generator: a few threads, each an epoll loop over thousands of phones, which costs less per frame than the
//! gateway does. It counts frames without parsing them: a frame is parsed when its bytes are seen for the first time,
//! and compared with those seen last after that.

pub mod assignment;
pub mod harvest;

use assignment::Assignment;
use harvest::{Harvest, Snapshot};
use std::time::Instant;

/// A running generator.
#[derive(Debug)]
pub struct Swarm;

impl Swarm {
    /// Starts the threads; phones arrive by the assignment's timeline, counted from `zero`, which may lie ahead.
    ///
    /// # Errors
    /// The system does not give what the phones need, such as open files.
    pub fn start(assignment: Assignment, zero: Instant) -> anyhow::Result<Swarm> {
        let _ = (assignment, zero);
        todo!()
    }

    /// What has happened so far, cheap enough for each second.
    pub fn snapshot(&self) -> Snapshot {
        todo!()
    }

    /// Nobody taps any more; phones stay until all is answered.
    pub fn stop_tapping(&self) {
        todo!()
    }

    /// Has all phones leave, and gives what they saw.
    pub fn finish(self) -> Harvest {
        todo!()
    }
}
