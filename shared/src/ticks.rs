//! What travels on a shard's `ticks` channel: JSON, one message a tick.
//!
//! Totals are absolute and only grow, so a receiver merges by maximum and a message that comes twice or late does no
//! harm. A gap in the serial, or a new epoch, tells it that it missed something and must read the totals again.

use crate::room::{ReactionKey, Room, RoomCode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A message on the channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedMessage {
    /// From the aggregator.
    Tick(Tick),
    /// From a gateway to itself, to learn whether its feed is alive: a random id.
    Probe(String),
}

impl FeedMessage {
    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self)
            .expect("plain data whose maps have texts for keys always becomes JSON")
    }

    /// From what came.
    ///
    /// # Errors
    /// It is no message of this form.
    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// What changed in the rooms of a shard. An idle shard sends an empty one each second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// Random, new at each load of the state.
    pub epoch: u64,
    /// Grows by one per message of an epoch, from 1.
    pub serial: u64,
    /// When it was made: the aggregator's estimate of log time, milliseconds since 1970.
    pub at_ms: u64,
    /// The rooms that changed.
    pub rooms: BTreeMap<RoomCode, RoomTick>,
}

/// What changed in one room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomTick {
    /// The reactions that changed, with their new totals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub totals: BTreeMap<ReactionKey, u64>,
    /// For hosts, at most once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<Audience>,
    /// The room as the host left it, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Room>,
    /// The room has expired and is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
}

/// Head count and rate of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Audience {
    /// Phones present.
    pub people: u32,
    /// Taps counted per second, over the last five.
    pub taps_per_second: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::{Palette, RoomState};

    fn code(text: &str) -> RoomCode {
        text.parse().unwrap()
    }

    #[test]
    fn a_tick_keeps_to_its_form() {
        let clap: ReactionKey = "clap".parse().unwrap();
        let tick = |rooms| {
            FeedMessage::Tick(Tick {
                epoch: u64::MAX,
                serial: 7,
                at_ms: 1_780_000_000_000,
                rooms,
            })
        };
        assert_eq!(
            tick(BTreeMap::new()).encode(),
            br#"{"tick":{"epoch":18446744073709551615,"serial":7,"at_ms":1780000000000,"rooms":{}}}"#
        );
        let message = tick(BTreeMap::from([(
            code("PARTY7"),
            RoomTick {
                totals: BTreeMap::from([(clap, 530)]),
                audience: Some(Audience {
                    people: 812,
                    taps_per_second: 97,
                }),
                ..RoomTick::default()
            },
        )]));
        let json = String::from_utf8(message.encode()).unwrap();
        assert!(json.contains(
            r#""rooms":{"PARTY7":{"totals":{"clap":530},"audience":{"people":812,"taps_per_second":97}}}"#
        ));
        assert_eq!(FeedMessage::decode(json.as_bytes()).unwrap(), message);
    }

    #[test]
    fn changes_and_expiries_come_back_whole() {
        let room = Room {
            code: code("PARTY7"),
            title: "Closing “party”".into(),
            palette: Palette::standard(),
            cooldown_ms: 3_000,
            state: RoomState::Paused,
            version: 4,
            created_at_ms: 1,
        };
        let message = FeedMessage::Tick(Tick {
            epoch: 1,
            serial: 1,
            at_ms: 1,
            rooms: BTreeMap::from([
                (
                    code("PARTY7"),
                    RoomTick {
                        room: Some(room),
                        ..RoomTick::default()
                    },
                ),
                (
                    code("GONE"),
                    RoomTick {
                        expired: true,
                        ..RoomTick::default()
                    },
                ),
            ]),
        });
        assert_eq!(FeedMessage::decode(&message.encode()).unwrap(), message);
    }

    #[test]
    fn a_probe_is_no_tick() {
        let probe = FeedMessage::Probe("5f".into());
        assert_eq!(probe.encode(), br#"{"probe":"5f"}"#);
        assert_eq!(FeedMessage::decode(br#"{"probe":"5f"}"#).unwrap(), probe);
        assert!(FeedMessage::decode(b"{}").is_err());
        assert!(FeedMessage::decode(b"[1").is_err());
    }
}
