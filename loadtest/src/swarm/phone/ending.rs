//! Why connections end that should not.

use super::Stage;
use std::io;

/// Why a connection ended that was not meant to.
#[derive(Debug)]
pub(in crate::swarm) enum Ending {
    /// This machine gave no socket.
    NoSocket(io::Error),
    /// It could not be had, or broke.
    Lost(io::Error),
    /// The handshake was answered otherwise than with 101.
    Status(u16),
    /// A close frame.
    Closed(Option<u16>),
    /// The server did not keep to the protocol.
    Wrong(&'static str),
    /// No answer in time.
    Silent,
}

impl Ending {
    /// Without addresses, so that the same is counted as the same.
    pub(super) fn message(&self, stage: Stage) -> String {
        let what = match self {
            Ending::NoSocket(error) => return format!("no socket to connect with: {error}"),
            Ending::Lost(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                "closed without a word".to_owned()
            }
            Ending::Lost(error) => error.to_string(),
            Ending::Status(status) => format!("answered {status}"),
            Ending::Closed(Some(code)) => format!("closed with {code}"),
            Ending::Closed(None) => "closed without a code".to_owned(),
            Ending::Wrong(why) => (*why).to_owned(),
            Ending::Silent => "no answer in time".to_owned(),
        };
        let when = match stage {
            Stage::Out | Stage::Connecting => "connecting",
            Stage::Shaking => "handshake",
            Stage::Joining => "join",
            Stage::In => "in the room",
        };
        format!("{when}: {what}")
    }
}
