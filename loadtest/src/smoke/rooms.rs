//! The rooms of a smoke run, and what is tapped in them.

use crate::api;
use crate::smoke::latency::PROBES;
use crate::stack::Stack;
use anyhow::Context;
use serde_json::json;
use shared::room::{ReactionKey, RoomCode};
use shared::shards::Shards;
use std::collections::BTreeSet;
use std::time::Duration;

/// What all phones tap: key and emoji.
const COMMON: [(&str, &str); 8] = [
    ("clap", "👏"),
    ("heart", "❤️"),
    ("laugh", "😂"),
    ("wow", "😮"),
    ("fire", "🔥"),
    ("party", "🎉"),
    ("rocket", "🚀"),
    ("hundred", "💯"),
];

/// Makes rooms that live on different masters, as many as there are.
pub(crate) async fn make(
    stack: &Stack,
    shards: &Shards,
    count: usize,
    cooldown: Duration,
) -> anyhow::Result<Vec<RoomCode>> {
    let view = stack.rig.cluster.view().await?;
    let masters = view
        .iter()
        .filter(|node| node.is_master && !node.slots.is_empty())
        .count();
    let mut taken = BTreeSet::new();
    let mut rooms = Vec::new();
    while rooms.len() < count {
        let code = RoomCode::generate(&mut rand::rng());
        let slot = shards.slot(shards.of(&code));
        let master = view
            .iter()
            .find(|node| node.is_master && node.has_slot(slot));
        let master = &master
            .with_context(|| format!("no master serves slot {slot}"))?
            .id;
        if taken.len() < masters && !taken.insert(master) {
            continue;
        }
        rooms.push(code);
    }
    for (index, code) in rooms.iter().enumerate() {
        let reactions = COMMON.iter().chain(&PROBES);
        let palette: Vec<_> = reactions
            .map(|(key, emoji)| json!({ "key": key, "emoji": emoji, "label": key }))
            .collect();
        let room = json!({
            "title": format!("Smoke {}", index + 1),
            "code": code,
            "cooldown_ms": u64::try_from(cooldown.as_millis())?,
            "palette": palette,
        });
        api::make_room(stack.front.address(), stack.rig.admin_key(), &room).await?;
    }
    Ok(rooms)
}

/// What the n-th phone of a room taps: the first ones a reaction each that nobody else taps, the others all of the rest.
pub(crate) fn keys_of(phone: usize) -> Vec<ReactionKey> {
    let keys: Vec<&str> = match PROBES.get(phone) {
        Some((key, _)) => vec![key],
        None => COMMON.iter().map(|(key, _)| *key).collect(),
    };
    keys.into_iter()
        .map(|key| key.parse().expect("the keys above are well-formed"))
        .collect()
}
