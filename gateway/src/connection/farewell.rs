//! Why the gateway closes a socket, and what the other side is told: the one place that knows close codes.

use super::guard::Violation;
use shared::protocol::Bye;

/// Why a connection ends by our doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// A rule of the protocol was broken; the reason is told.
    Rule(String),
    /// The bytes are no WebSocket, or no message that we take.
    Violation(Violation),
    /// There is no such room (any more).
    Unknown,
    /// Too many unknown codes from this address.
    Guessing,
    /// The gateway drains; it was told when to come back.
    Drained,
    /// The gateway cannot serve it now, or does not know the fate of its taps: come back after so many milliseconds.
    Overload(&'static str, u64),
    /// What it sends may have been under way for too long: come back after so many milliseconds.
    Stale(u64),
    /// Nothing was heard from it for too long.
    Silent,
    /// It closed with this code; closing is answered with closing.
    Answer(u16),
}

impl Farewell {
    /// The close code, the reason beside it, and the frame before it.
    pub(crate) fn told(self) -> (u16, String, Option<Bye>) {
        let bye = |why: &str, retry_ms| {
            Some(Bye {
                why: why.to_owned(),
                retry_ms: Some(retry_ms),
            })
        };
        match self {
            Farewell::Rule(reason) => (1008, reason, None),
            Farewell::Violation(violation) => (violation.code(), violation.to_string(), None),
            Farewell::Unknown => (4404, "there is no such room".to_owned(), None),
            Farewell::Guessing => (
                1008,
                "too many unknown room codes from this address".to_owned(),
                None,
            ),
            Farewell::Drained => (1012, "this gateway is shutting down".to_owned(), None),
            Farewell::Overload(reason, retry_ms) => {
                (1013, reason.to_owned(), bye("overload", retry_ms))
            }
            Farewell::Stale(retry_ms) => (
                1013,
                "the connection had stalled: send its taps again".to_owned(),
                bye("stale", retry_ms),
            ),
            Farewell::Silent => (1001, "nothing was heard for too long".to_owned(), None),
            Farewell::Answer(code) => (code, String::new(), None),
        }
    }
}
