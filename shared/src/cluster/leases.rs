//! Leases in Redis: who reads which shard.

use super::client::Cluster;
use super::errors::RequestError;
use super::scripts::{CLAIM, RELEASE, RENEW};
use crate::counting::ids::{EntryId, Nonce};
use crate::counting::lease::LeaseRecord;
use crate::shards::ShardId;
use redis::Value;

/// A lease as it stands in Redis, and how far its reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseState {
    /// Owner and beat.
    pub record: LeaseRecord,
    /// The offset committed last; none before the first commit.
    pub offset: Option<EntryId>,
}

impl Cluster {
    /// Reads a lease; `lease_key` is the aggregator's or the persister's hash of that shard.
    ///
    /// # Errors
    /// See [`RequestError`]; [`RequestError::Refused`] too where what stands there is no lease.
    pub async fn read_lease(
        &self,
        shard: ShardId,
        lease_key: &str,
    ) -> Result<LeaseState, RequestError> {
        let mut command = redis::cmd("HMGET");
        command
            .arg(lease_key)
            .arg("owner")
            .arg("beat")
            .arg("offset");
        let answer = self.request(shard, &command).await?;
        parse(&answer)
            .ok_or_else(|| RequestError::Refused(format!("{lease_key} holds no lease: {answer:?}")))
    }

    /// Takes a lease, if it still is as it was `seen`; whether it is `owner`'s now.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn claim_lease(
        &self,
        shard: ShardId,
        lease_key: &str,
        seen: LeaseRecord,
        owner: Nonce,
    ) -> Result<bool, RequestError> {
        let arguments = [
            seen.owner.map(hex).unwrap_or_default().into_bytes(),
            seen.beat.to_string().into_bytes(),
            hex(owner).into_bytes(),
        ];
        let answer = self
            .script(shard, &CLAIM, &[lease_key.to_owned()], &arguments)
            .await?;
        Ok(answer == Value::Int(1))
    }

    /// Keeps a lease without reading; whether it still is `owner`'s.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn renew_lease(
        &self,
        shard: ShardId,
        lease_key: &str,
        owner: Nonce,
    ) -> Result<bool, RequestError> {
        let arguments = [hex(owner).into_bytes()];
        let answer = self
            .script(shard, &RENEW, &[lease_key.to_owned()], &arguments)
            .await?;
        Ok(answer == Value::Int(1))
    }

    /// Lets a lease go, so that another may take it at once; whether it was `owner`'s.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn release_lease(
        &self,
        shard: ShardId,
        lease_key: &str,
        owner: Nonce,
    ) -> Result<bool, RequestError> {
        let arguments = [hex(owner).into_bytes()];
        let answer = self
            .script(shard, &RELEASE, &[lease_key.to_owned()], &arguments)
            .await?;
        Ok(answer == Value::Int(1))
    }
}

/// A nonce as it stands in Redis.
pub fn hex(nonce: Nonce) -> String {
    format!("{:016x}", nonce.0)
}

/// A nonce from Redis; none for an empty text or zero.
pub fn parse_hex(text: &str) -> Option<Nonce> {
    u64::from_str_radix(text, 16)
        .ok()
        .filter(|nonce| *nonce != 0)
        .map(Nonce)
}

fn parse(answer: &Value) -> Option<LeaseState> {
    let Value::Array(fields) = answer else {
        return None;
    };
    let text = |index: usize| match fields.get(index)? {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::Nil => Some(""),
        _ => None,
    };
    let (owner, beat, offset) = (text(0)?, text(1)?, text(2)?);
    let owner = if owner.is_empty() {
        None
    } else {
        Some(parse_hex(owner)?)
    };
    let beat = if beat.is_empty() {
        0
    } else {
        beat.parse().ok()?
    };
    let offset = if offset.is_empty() {
        None
    } else {
        Some(offset.parse().ok()?)
    };
    Some(LeaseState {
        record: LeaseRecord { owner, beat },
        offset,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(texts: [Option<&str>; 3]) -> Value {
        let value = |text: Option<&str>| {
            text.map_or(Value::Nil, |text| {
                Value::BulkString(text.as_bytes().to_vec())
            })
        };
        Value::Array(texts.map(value).to_vec())
    }

    #[test]
    fn a_lease_is_read_in_every_state() {
        assert_eq!(
            parse(&fields([None, None, None])),
            Some(LeaseState::default())
        );
        let free = parse(&fields([Some(""), Some("7"), Some("15-2")])).unwrap();
        assert_eq!(
            free.record,
            LeaseRecord {
                owner: None,
                beat: 7
            }
        );
        assert_eq!(free.offset, Some(EntryId { ms: 15, seq: 2 }));
        let owner = Nonce(0xfe);
        let held = parse(&fields([Some(&hex(owner)), Some("8"), None])).unwrap();
        assert_eq!(
            held.record,
            LeaseRecord {
                owner: Some(owner),
                beat: 8
            }
        );
    }

    #[test]
    fn what_is_no_lease_is_told() {
        for texts in [
            [Some("zz"), Some("1"), None],
            [Some("1"), Some("x"), None],
            [Some("1"), Some("1"), Some("15")],
        ] {
            assert_eq!(parse(&fields(texts)), None, "{texts:?}");
        }
        assert_eq!(parse(&Value::Nil), None);
    }
}
