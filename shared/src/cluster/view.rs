//! The cluster as one node sees it: CLUSTER SHARDS and CLUSTER INFO, parsed.

use super::errors::answered;
use super::topology::SLOTS;
use redis::Value;
use redis::aio::{ConnectionLike, MultiplexedConnection};

/// What one node says of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct View {
    /// The masters that hold slots, by node id.
    pub(super) shards: Vec<ShardView>,
    /// Grows with each failover and migration: a view with a smaller one is out of date.
    pub(super) epoch: u64,
    /// `cluster_state:ok`.
    pub(super) ok: bool,
}

/// A master with its slots and replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ShardView {
    pub(super) id: String,
    pub(super) address: String,
    /// First and last of each range.
    pub(super) slots: Vec<(u16, u16)>,
    pub(super) replicas: Vec<ReplicaView>,
}

/// A replica as the node that was asked sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReplicaView {
    pub(super) id: String,
    pub(super) address: String,
    /// `health` is `online`.
    pub(super) online: bool,
}

/// Why a node gave no view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ViewError {
    /// It did not answer, or is not ready: ask another one, and this one again later.
    Later(String),
    /// It said no in a way that will not change by itself: code and details.
    Never(String, String),
}

/// Asks a node how it sees the cluster.
///
/// # Cancel safety
/// Safe; the connection should be dropped with it.
pub(super) async fn ask(
    connection: &mut MultiplexedConnection,
    address: &str,
) -> Result<View, ViewError> {
    let mut pipeline = redis::pipe();
    pipeline
        .cmd("CLUSTER")
        .arg("INFO")
        .cmd("CLUSTER")
        .arg("SHARDS");
    let answers = connection
        .req_packed_commands(&pipeline, 0, 2)
        .await
        .map_err(|error| ViewError::Later(error.to_string()))?;
    let mut answers = answers.into_iter();
    let mut next = || {
        let answer = answers
            .next()
            .ok_or_else(|| ViewError::Later("no answer".to_owned()))?;
        answered(answer).map_err(|error| of_server(&error))
    };
    let info = text(&next()?);
    let shards = next()?;
    Ok(parse(&info, &shards, address))
}

/// An error of the server: whether asking again may help.
pub(super) fn of_server(error: &redis::ServerError) -> ViewError {
    let (code, details) = (
        error.code().to_owned(),
        error.details().unwrap_or("").to_owned(),
    );
    match error.code() {
        "NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED" | "ERR" => ViewError::Never(code, details),
        _ => ViewError::Later(format!("{code} {details}")),
    }
}

/// A connection that could not be opened.
pub(super) fn of_opening(error: redis::RedisError) -> ViewError {
    // The library keeps the kind of a failed log-in, not the server's words.
    if error.kind() == redis::ErrorKind::AuthenticationFailed {
        return ViewError::Never("WRONGPASS".to_owned(), String::new());
    }
    let text = error.to_string();
    redis::ServerError::try_from(error).map_or(ViewError::Later(text), |error| of_server(&error))
}

/// A view from the two answers. `asked` stands in for the address of a node that does not know its own.
fn parse(info: &str, shards: &Value, asked: &str) -> View {
    let number = |name| {
        field(info, name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    };
    let mut view = View {
        shards: items(shards)
            .iter()
            .filter_map(|shard| parse_shard(shard, asked))
            .collect(),
        epoch: number("cluster_current_epoch"),
        ok: field(info, "cluster_state") == Some("ok"),
    };
    view.shards.sort_by(|a, b| a.id.cmp(&b.id));
    view
}

/// A shard that holds slots and has a master.
fn parse_shard(shard: &Value, asked: &str) -> Option<ShardView> {
    let bounds: Vec<u16> = entry(shard, "slots")
        .map(items)
        .unwrap_or_default()
        .iter()
        .filter_map(number)
        .filter_map(|slot| {
            u16::try_from(slot)
                .ok()
                .filter(|slot| usize::from(*slot) < SLOTS)
        })
        .collect();
    let slots: Vec<(u16, u16)> = bounds
        .chunks_exact(2)
        .map(|range| (range[0], range[1]))
        .collect();
    let (mut masters, mut replicas) = (Vec::new(), Vec::new());
    for node in entry(shard, "nodes").map(items).unwrap_or_default() {
        let Some(address) = node_address(node, asked) else {
            continue;
        };
        let id = entry(node, "id").map(text).unwrap_or_default();
        let online = entry(node, "health").map(text).as_deref() == Some("online");
        let role = entry(node, "role").map(text).unwrap_or_default();
        let of = if role == "master" {
            &mut masters
        } else {
            &mut replicas
        };
        of.push(ReplicaView {
            id,
            address,
            online,
        });
    }
    replicas.sort_by(|a: &ReplicaView, b| a.id.cmp(&b.id));
    // Newer versions keep a failed master in its shard beside the one that took over.
    let master = masters
        .iter()
        .find(|master| master.online)
        .or_else(|| masters.first())
        .cloned()?;
    (!slots.is_empty()).then_some(ShardView {
        id: master.id,
        address: master.address,
        slots,
        replicas,
    })
}

fn node_address(node: &Value, asked: &str) -> Option<String> {
    let port = entry(node, "port")
        .or_else(|| entry(node, "tls-port"))
        .and_then(number)?;
    let known = |name| {
        entry(node, name)
            .map(text)
            .filter(|host| !host.is_empty() && host != "?")
    };
    let host = known("endpoint")
        .or_else(|| known("ip"))
        .or_else(|| super::dial::split_address(asked).map(|(host, _)| host.to_owned()))?;
    Some(if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    })
}

/// The value of a key, where a map came as such or (RESP2) as a flat list.
fn entry<'a>(map: &'a Value, key: &str) -> Option<&'a Value> {
    match map {
        Value::Map(pairs) => pairs
            .iter()
            .find(|(name, _)| text(name) == key)
            .map(|(_, v)| v),
        Value::Array(list) => list
            .chunks_exact(2)
            .find(|pair| text(&pair[0]) == key)
            .map(|pair| &pair[1]),
        _ => None,
    }
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(list) => list,
        _ => &[],
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        value => text(value).parse().ok(),
    }
}

/// The text of a value; empty where it is none.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

/// The value of a line `name:value` of an INFO text.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn node(id: &str, endpoint: &str, port: i64, role: &str, health: &str) -> Value {
        Value::Array(vec![
            bulk("id"),
            bulk(id),
            bulk("port"),
            Value::Int(port),
            bulk("ip"),
            bulk(""),
            bulk("endpoint"),
            bulk(endpoint),
            bulk("role"),
            bulk(role),
            bulk("replication-offset"),
            Value::Int(42),
            bulk("health"),
            bulk(health),
        ])
    }

    fn shard(slots: &[i64], nodes: Vec<Value>) -> Value {
        let slots = slots.iter().map(|slot| Value::Int(*slot)).collect();
        Value::Array(vec![
            bulk("slots"),
            Value::Array(slots),
            bulk("nodes"),
            Value::Array(nodes),
        ])
    }

    #[test]
    fn shards_become_masters_and_replicas() {
        let shards = Value::Array(vec![
            shard(
                &[0, 99, 200, 16383],
                vec![
                    node("b", "10.0.0.1", 7000, "master", "online"),
                    node("y", "10.0.0.2", 7001, "replica", "fail"),
                    node("x", "10.0.0.3", 7002, "replica", "online"),
                ],
            ),
            shard(&[100, 199], vec![node("a", "", 7003, "master", "online")]),
            shard(&[], vec![node("dead", "10.0.0.4", 7004, "master", "fail")]),
        ]);
        let info = "cluster_state:ok\r\ncluster_current_epoch:7\r\ncluster_my_epoch:1\r\n";
        let view = parse(info, &shards, "192.168.1.5:7003");
        assert!(view.ok);
        assert_eq!(view.epoch, 7);
        assert_eq!(view.shards.len(), 2);
        assert_eq!(view.shards[0].address, "192.168.1.5:7003");
        assert_eq!(view.shards[0].slots, [(100, 199)]);
        let second = &view.shards[1];
        assert_eq!(second.slots, [(0, 99), (200, 16383)]);
        let replicas: Vec<_> = second
            .replicas
            .iter()
            .map(|r| (r.id.as_str(), r.online))
            .collect();
        assert_eq!(replicas, [("x", true), ("y", false)]);
    }

    #[test]
    fn of_two_masters_in_a_shard_the_one_online_counts() {
        let shards = Value::Array(vec![shard(
            &[0, 16383],
            vec![
                node("old", "10.0.0.1", 7000, "master", "fail"),
                node("new", "10.0.0.2", 7001, "master", "online"),
            ],
        )]);
        let view = parse("cluster_state:ok", &shards, "x:1");
        assert_eq!(view.shards[0].id, "new");
    }

    #[test]
    fn nonsense_is_no_view_and_no_panic() {
        for value in [
            Value::Nil,
            Value::Array(vec![Value::Nil]),
            bulk("x"),
            shard(&[5], vec![]),
        ] {
            assert_eq!(parse("", &value, "x:1").shards, []);
        }
    }
}
