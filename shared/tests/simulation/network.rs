//! Messages between processes and stores, and what a process knows of a topology that it only hears of.

use crate::executor::{SlotId, Value};
use crate::redis::{Command, Request, Seen, Waited};
use crate::world::{Event, Process, ProcessId, World};

impl World {
    /// A request to whom the process takes for the master; `slot` is filled by the answer or after a time.
    pub(crate) fn request(
        &mut self,
        from: ProcessId,
        group: usize,
        command: Command,
        slot: SlotId,
    ) {
        let (node, needed) = {
            let (seen, at_ms) = self.seen_by(from, group);
            (seen.master, seen.electable(at_ms))
        };
        let request = Request {
            from,
            group,
            node,
            needed,
            command,
            slot,
        };
        let delay_ms = self.random.range(0, 3);
        self.after(delay_ms, Event::Depart(request));
        self.after(2_000, Event::Fill(slot, Value::Lost));
    }

    /// What a process knows of a group's topology: some time old, or as old as its pause.
    fn seen_by(&mut self, process: ProcessId, group: usize) -> (&Seen, u64) {
        let lag_ms = self.random.range(0, 450);
        let at_ms = match self.processes[process.0].stale {
            Some((paused_at_ms, until_ms)) if self.now_ms < until_ms => paused_at_ms,
            _ => self.now_ms - lag_ms,
        };
        (self.groups[group].seen_at(at_ms), at_ms)
    }

    /// A topology observed just now, for the question whether what `node` confirmed is on all that could replace it.
    pub(crate) fn confirms(&self, waited: Waited) -> bool {
        let seen = self.groups[waited.group].seen_at(self.now_ms);
        seen.master == waited.node && waited.replicas >= seen.electable(self.now_ms)
    }

    /// This process's estimate of a master's clock.
    pub(crate) fn log_now_ms(&mut self, process: ProcessId, group: usize) -> u64 {
        let now_ms = self.now_ms;
        let error_ms = i64::try_from(self.random.range(0, 100)).expect("small") - 50;
        let (seen, _) = self.seen_by(process, group);
        now_ms.saturating_add_signed(seen.clock_ms + error_ms)
    }

    pub(crate) fn depart(&mut self, request: Request) {
        if self.is_lost(request.from) {
            return self.trace(|| format!("request {:?} lost", request.command));
        }
        let delay_ms = self.delay_ms(request.from);
        self.after(delay_ms, Event::Arrive(request));
    }

    /// Whether a message from or to a process is lost.
    pub(crate) fn is_lost(&mut self, process: ProcessId) -> bool {
        let Process {
            lossy_until_ms,
            cut_until_ms,
            ..
        } = self.processes[process.0];
        cut_until_ms > self.now_ms || (lossy_until_ms > self.now_ms && self.random.per_mille(300))
    }

    pub(crate) fn delay_ms(&mut self, process: ProcessId) -> u64 {
        if self.processes[process.0].late_until_ms > self.now_ms {
            self.random.delay(1, 30_000)
        } else {
            self.random.delay(1, 20)
        }
    }
}
