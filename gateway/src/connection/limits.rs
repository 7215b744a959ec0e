//! What a connection may send.

/// Parameters of the socket code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// A whole message, over all its fragments.
    pub(crate) message_bytes_max: usize,
    /// Whether binary messages are allowed.
    pub(crate) binary: bool,
}

/// What phones, stages and hosts may send: the longest frame is a host's join with its token, some 400 bytes.
pub(crate) const BROWSERS: Limits = Limits {
    message_bytes_max: 1024,
    binary: false,
};
