//! What the server sends.

use crate::room::{Palette, ReactionKey, Room, RoomState};
use crate::ticks::Audience;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why an attempt to tap did not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Within the cooldown of the client's last tap; `retry_ms` says how long it still lasts.
    Cooldown,
    /// The room is paused.
    Paused,
    /// The room is closed.
    Closed,
    /// The palette has no such key.
    UnknownReaction,
    /// First sent more than 80 s ago.
    TooOld,
    /// The system is at a limit; `retry_ms` says when to try again.
    Busy,
    /// The seq went back, jumped or was 0.
    Seq,
}

impl Why {
    /// All there are, in the order of the protocol page.
    pub const ALL: [Why; 7] = [
        Why::Cooldown,
        Why::Paused,
        Why::Closed,
        Why::UnknownReaction,
        Why::TooOld,
        Why::Busy,
        Why::Seq,
    ];

    /// As it stands in the frame, and as the label of a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::Cooldown => "cooldown",
            Why::Paused => "paused",
            Why::Closed => "closed",
            Why::UnknownReaction => "unknown_reaction",
            Why::TooOld => "too_old",
            Why::Busy => "busy",
            Why::Seq => "seq",
        }
    }
}

/// What the server sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerFrame {
    /// After a join, and whenever the host changes the room.
    Room(RoomFrame),
    /// The reactions that changed, with their new totals.
    Tick(TickFrame),
    /// This seq counts.
    Ack(u32),
    /// This attempt did not count.
    Refused(Refused),
    /// To hosts, each second.
    Audience(Audience),
    /// Answers a ping; always 1.
    Pong(u8),
    /// On the event stream of the fallback only: the server's time in milliseconds since 1970. The next POST of taps
    /// sends it back.
    Time(u64),
    /// Before a close.
    Bye(Bye),
}

impl ServerFrame {
    /// As it travels. For ticks, acks and refusals see the faster writers of this module.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self)
            .expect("plain data whose maps have texts for keys always becomes JSON")
    }
}

/// A room and its totals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RoomFrame {
    /// Its title.
    pub title: String,
    /// The buttons.
    #[schemars(with = "Vec<crate::room::PaletteEntry>")]
    pub palette: Palette,
    /// The least time between two taps.
    pub cooldown_ms: u32,
    /// Whether it takes taps.
    pub state: RoomState,
    /// Totals since the room was created; reactions without any are left out.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub totals: BTreeMap<ReactionKey, u64>,
}

impl RoomFrame {
    /// From a room and its totals.
    pub fn new(room: &Room, totals: &BTreeMap<ReactionKey, u64>) -> Self {
        RoomFrame {
            title: room.title.clone(),
            palette: room.palette.clone(),
            cooldown_ms: room.cooldown_ms,
            state: room.state,
            totals: totals.clone(),
        }
    }
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TickFrame {
    /// Merge by maximum.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub totals: BTreeMap<ReactionKey, u64>,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Refused {
    /// Which attempt.
    pub seq: u32,
    /// Why.
    pub why: Why,
    /// When it makes sense to try again, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_ms: Option<u64>,
}

/// A farewell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Bye {
    /// `drain`, `overload`, `closed`, …
    pub why: String,
    /// When to come back, in milliseconds; none: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::PaletteEntry;

    fn totals(clap: u64) -> BTreeMap<ReactionKey, u64> {
        BTreeMap::from([("clap".parse().unwrap(), clap)])
    }

    #[test]
    fn the_frames_of_the_protocol_page() {
        let palette = Palette::new(vec![PaletteEntry {
            key: "clap".parse().unwrap(),
            emoji: "👏".into(),
            label: "Applause".into(),
        }]);
        let room = RoomFrame {
            title: "Closing".into(),
            palette: palette.unwrap(),
            cooldown_ms: 3000,
            state: RoomState::Open,
            totals: totals(512),
        };
        for (frame, json) in [
            (
                ServerFrame::Room(room),
                r#"{"room":{"title":"Closing","palette":[{"key":"clap","emoji":"👏","label":"Applause"}],"cooldown_ms":3000,"state":"open","totals":{"clap":512}}}"#,
            ),
            (
                ServerFrame::Tick(TickFrame {
                    totals: totals(530),
                }),
                r#"{"tick":{"totals":{"clap":530}}}"#,
            ),
            (ServerFrame::Ack(17), r#"{"ack":17}"#),
            (
                ServerFrame::Refused(Refused {
                    seq: 18,
                    why: Why::Cooldown,
                    retry_ms: Some(1200),
                }),
                r#"{"refused":{"seq":18,"why":"cooldown","retry_ms":1200}}"#,
            ),
            (
                ServerFrame::Refused(Refused {
                    seq: 19,
                    why: Why::UnknownReaction,
                    retry_ms: None,
                }),
                r#"{"refused":{"seq":19,"why":"unknown_reaction"}}"#,
            ),
            (
                ServerFrame::Audience(Audience {
                    people: 812,
                    taps_per_second: 97,
                }),
                r#"{"audience":{"people":812,"taps_per_second":97}}"#,
            ),
            (ServerFrame::Pong(1), r#"{"pong":1}"#),
            (
                ServerFrame::Time(1_790_000_000_000),
                r#"{"time":1790000000000}"#,
            ),
            (
                ServerFrame::Bye(Bye {
                    why: "drain".into(),
                    retry_ms: Some(3417),
                }),
                r#"{"bye":{"why":"drain","retry_ms":3417}}"#,
            ),
        ] {
            assert_eq!(String::from_utf8(frame.encode()).unwrap(), json);
            assert_eq!(serde_json::from_str::<ServerFrame>(json).unwrap(), frame);
        }
    }

    #[test]
    fn reasons_read_alike_everywhere() {
        for why in Why::ALL {
            assert_eq!(
                serde_json::to_string(&why).unwrap(),
                format!("{:?}", why.as_str())
            );
        }
    }
}
