//! What can go wrong, told apart by what the caller may do about it.

use redis::{RedisError, ServerError, Value};

/// Why a service cannot start on this Redis; each says what was found and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No node answered, or the cluster was not whole, until the service was shut down.
    #[error("no Redis node answered: {0}")]
    Unreachable(String),
    /// It is no cluster, asks for a password, evicts, has another layout, …: starting again will not help.
    #[error("{0}")]
    Unfit(String),
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It was certainly not done: no connection, MOVED, CLUSTERDOWN, TRYAGAIN, LOADING, NOSCRIPT, READONLY, …
    #[error("not done: {0}")]
    NotDone(String),
    /// The answer was lost: it may have been done.
    #[error("no answer: {0}")]
    Unknown(String),
    /// Redis is out of memory.
    #[error("Redis is out of memory")]
    OutOfMemory,
    /// Redis said no, for a reason that lies in the request.
    #[error("refused: {0}")]
    Refused(String),
}

/// Codes of answers that Redis gives before it executes anything, because of the state it is in.
const NOT_EXECUTED: [&str; 12] = [
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "READONLY",
    "NOSCRIPT",
    "BUSY",
    "MISCONF",
    "NOREPLICAS",
    "UNBLOCKED",
];

/// Codes that say that the topology we know is not (or not for long) the right one.
const TOPOLOGY_CHANGED: [&str; 7] = [
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "READONLY",
    "LOADING",
    "MASTERDOWN",
];

impl RequestError {
    /// From an answer of the server.
    pub(super) fn of_answer(error: &ServerError) -> Self {
        let text = match error.details() {
            Some(details) => format!("{} {details}", error.code()),
            None => error.code().to_owned(),
        };
        match error.code() {
            // Redis checks its memory before the first write of a command or script, never after it.
            "OOM" => RequestError::OutOfMemory,
            code if NOT_EXECUTED.contains(&code) => RequestError::NotDone(text),
            _ => RequestError::Refused(text),
        }
    }

    /// From a failure between the sending of a request and its answer.
    pub(super) fn of_transport(error: &RedisError) -> Self {
        RequestError::Unknown(error.to_string())
    }
}

/// Whether this answer asks for another look at the topology.
pub(super) fn tells_of_change(error: &ServerError) -> bool {
    TOPOLOGY_CHANGED.contains(&error.code())
}

/// An answer that came: the value, or the server's error.
pub(super) fn answered(value: Value) -> Result<Value, ServerError> {
    match value {
        Value::ServerError(error) => Err(error),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> ServerError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        answered(value).unwrap_err()
    }

    #[test]
    fn answers_are_told_apart() {
        for line in [
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN Hash slot not served",
            "LOADING Redis is loading the dataset in memory",
            "READONLY You can't write against a read only replica.",
            "NOSCRIPT No matching script. Please use EVAL.",
            "MISCONF Redis is configured to save RDB snapshots",
            "BUSY Redis is busy running a script.",
        ] {
            let got = RequestError::of_answer(&error(line));
            assert!(matches!(got, RequestError::NotDone(_)), "{line}: {got:?}");
        }
        let oom = error("OOM command not allowed when used memory > 'maxmemory'.");
        assert_eq!(RequestError::of_answer(&oom), RequestError::OutOfMemory);
        for line in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR unknown command",
            "CROSSSLOT Keys in request don't hash to the same slot",
            "NOPERM this user has no permissions",
        ] {
            let got = RequestError::of_answer(&error(line));
            assert!(matches!(got, RequestError::Refused(_)), "{line}: {got:?}");
        }
    }

    #[test]
    fn only_a_changed_topology_asks_for_a_poll() {
        assert!(tells_of_change(&error("MOVED 3999 127.0.0.1:6381")));
        assert!(tells_of_change(&error("CLUSTERDOWN The cluster is down")));
        assert!(!tells_of_change(&error("NOSCRIPT No matching script.")));
        assert!(!tells_of_change(&error("OOM command not allowed")));
    }
}
