//! The arguments of `commit.lua`, and what its answer says. Its keys and arguments are told at its top.

use crate::state::{Begins, Pending, Totals};
use redis::Value;
use shared::cluster::leases::hex;
use shared::counting::ids::{Nonce, ProducerId};
use shared::counting::reader::{Commit, ProducerMark};
use shared::room::RoomCode;
use shared::shards::{ShardId, Shards};
use std::collections::BTreeMap;

/// Why a commit was not done, for metrics and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Refusal {
    /// Another owner holds the lease.
    Owner,
    /// Another commit came between.
    Offset,
    /// The last folded entry is not in the log.
    Log,
    /// A key holds something else.
    Type,
    /// Our arguments are wrong, or the answer is none that the script gives.
    Shape,
}

impl Refusal {
    /// As the label of a metric.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Refusal::Owner => "owner",
            Refusal::Offset => "offset",
            Refusal::Log => "log",
            Refusal::Type => "type",
            Refusal::Shape => "shape",
        }
    }
}

/// Keys and arguments of one commit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) keys: Vec<String>,
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// A commit of what was folded; `message` is the tick to publish with it, if any.
pub(crate) fn request(
    shards: &Shards,
    shard: ShardId,
    owner: Nonce,
    commit: &Commit<'_>,
    message: Option<Vec<u8>>,
    rooms: &BTreeMap<RoomCode, (Pending, Totals)>,
) -> Request {
    let mut keys = vec![
        shards.aggregator(shard),
        shards.log(shard),
        shards.producers(shard),
        shards.activity(shard),
        shards.ticks(shard),
    ];
    let mut arguments = vec![
        hex(owner).into_bytes(),
        commit.expected.to_string().into_bytes(),
        commit.offset.to_string().into_bytes(),
        message.unwrap_or_default(),
    ];
    let mut say = |text: String| arguments.push(text.into_bytes());
    say(commit.changed_producers.len().to_string());
    for (producer, mark) in &commit.changed_producers {
        say(producer_field(*producer));
        say(format!("{} {}", mark.number, mark.log_ms));
    }
    say(commit.forgotten_producers.len().to_string());
    for producer in &commit.forgotten_producers {
        say(producer_field(*producer));
    }
    say(rooms.len().to_string());
    for (code, (pending, totals)) in rooms {
        keys.push(shards.totals(code));
        keys.push(shards.room(code));
        say(code.to_string());
        let (begins, version) = match pending.begins {
            Begins::Kept => ("kept", 0),
            Begins::Created => ("created", 0),
            Begins::Expired(version) => ("expired", version),
        };
        say(begins.to_owned());
        say(version.to_string());
        say(pending
            .active_ms
            .map(|ms| ms.to_string())
            .unwrap_or_default());
        say(totals.len().to_string());
        for (key, total) in totals {
            say(key.to_string());
            say(total.to_string());
        }
    }
    Request { keys, arguments }
}

/// What the script said.
pub(crate) fn outcome(answer: &Value) -> Result<(), Refusal> {
    let text = match answer {
        Value::BulkString(bytes) => bytes.as_slice(),
        Value::SimpleString(text) => text.as_bytes(),
        _ => b"",
    };
    match text {
        b"done" => Ok(()),
        b"owner" => Err(Refusal::Owner),
        b"offset" => Err(Refusal::Offset),
        b"log" => Err(Refusal::Log),
        b"type" => Err(Refusal::Type),
        _ => Err(Refusal::Shape),
    }
}

fn producer_field(producer: ProducerId) -> String {
    format!("{:016x}", producer.0)
}

/// One field of the producers' hash; none if it is no such field.
pub(crate) fn parse_producer(field: &str, value: &str) -> Option<(ProducerId, ProducerMark)> {
    let producer = u64::from_str_radix(field, 16).ok()?;
    let (number, log_ms) = value.split_once(' ')?;
    Some((
        ProducerId(producer),
        ProducerMark {
            number: number.parse().ok()?,
            log_ms: log_ms.parse().ok()?,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::counting::ids::EntryId;
    use shared::counting::reader::Reader;

    #[test]
    fn a_request_is_laid_out_as_the_script_reads_it() {
        let shards = Shards::new(64);
        let code: RoomCode = "PARTY7".parse().unwrap();
        let shard = shards.of(&code);
        let mut reader = Reader::new();
        reader.loaded(EntryId::ZERO, []);
        let mut commit = reader.commit().unwrap();
        commit.offset = EntryId { ms: 7, seq: 1 };
        commit.changed_producers = vec![(
            ProducerId(0xab),
            ProducerMark {
                number: 3,
                log_ms: 7,
            },
        )];
        commit.forgotten_producers = vec![ProducerId(1)];
        let pending = Pending {
            active_ms: Some(7),
            ..Pending::default()
        };
        let totals = Totals::from([("clap".parse().unwrap(), 12)]);
        let rooms = BTreeMap::from([(code.clone(), (pending, totals))]);
        let request = request(
            &shards,
            shard,
            Nonce(0xfe),
            &commit,
            Some(b"{}".to_vec()),
            &rooms,
        );
        assert_eq!(request.keys.len(), 7);
        assert_eq!(
            request.keys[5..],
            [shards.totals(&code), shards.room(&code)]
        );
        let texts: Vec<&str> = request
            .arguments
            .iter()
            .map(|bytes| std::str::from_utf8(bytes).unwrap())
            .collect();
        assert_eq!(
            texts.join("|"),
            "00000000000000fe|0-0|7-1|{}|1|00000000000000ab|3 7|1|0000000000000001|1|PARTY7|kept|0|7|1|clap|12"
        );
    }

    #[test]
    fn producers_are_read_as_they_are_written() {
        let mark = ProducerMark {
            number: 3,
            log_ms: 7,
        };
        assert_eq!(
            parse_producer(&producer_field(ProducerId(0xab)), "3 7"),
            Some((ProducerId(0xab), mark))
        );
        for (field, value) in [("xyz", "3 7"), ("ab", "3"), ("ab", "3 x"), ("", "")] {
            assert_eq!(parse_producer(field, value), None);
        }
    }

    #[test]
    fn answers() {
        assert_eq!(outcome(&Value::BulkString(b"done".to_vec())), Ok(()));
        assert_eq!(
            outcome(&Value::SimpleString("offset".into())),
            Err(Refusal::Offset)
        );
        assert_eq!(outcome(&Value::Nil), Err(Refusal::Shape));
    }
}
