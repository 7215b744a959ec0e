//! Rooms and reactions to the integers that name them in the tables.
//!
//! A shard's rooms are written by the holder of its ledger only, so what was read stays true until a commit fails; then
//! the dictionary is thrown away with all else.

use crate::database::connection::Connection;
use crate::database::from_ms;
use crate::step::{Segment, Step};
use shared::counting::entry::{RoomChange, RoomChangeKind};
use shared::room::{ReactionKey, RoomCode, RoomState};
use std::collections::{BTreeMap, HashMap};
use tokio_postgres::Error;

/// Beyond this the dictionary begins anew: a shard's rooms of months do not pile up in memory.
const ROOMS_MAX: usize = 20_000;

/// Reactions of a room are numbered by a smallint. Should a room ever use them up, all further keys are stored as this
/// one, whose name no real key can have.
const OTHER_ID: i16 = i16::MAX;
const OTHER_KEY: &str = "~other";

/// What is known of the rooms of a shard.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    /// The latest room of each code.
    rooms: HashMap<RoomCode, KnownRoom>,
}

#[derive(Debug, Clone)]
struct KnownRoom {
    room_id: i32,
    created_at_ms: i64,
    /// Its creation was never seen: the first change that names it fills it in.
    placeholder: bool,
    reactions: HashMap<String, i16>,
    last_id: i16,
}

/// A segment's numbers.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) room_id: i32,
    /// For each of the segment's keys.
    pub(crate) reactions: Vec<i16>,
}

/// A reaction to be written: emoji, label and position where a palette told them.
type Told = BTreeMap<i16, (String, Option<(String, String, Option<i16>)>)>;

impl Dictionary {
    /// The numbers of all segments of a step; new rooms and reactions and the host's changes are written.
    ///
    /// # Errors
    /// Whatever Postgres says: throw the dictionary away.
    pub(crate) async fn resolve(
        &mut self,
        connection: &mut Connection,
        step: &Step,
    ) -> Result<Vec<Numbers>, Error> {
        if self.rooms.len() > ROOMS_MAX {
            self.rooms.clear();
        }
        self.load(connection, step).await?;
        let mut numbers = Vec::with_capacity(step.segments.len());
        for segment in &step.segments {
            let mut room = self.room_of(connection, segment).await?;
            if !segment.changes.is_empty() {
                update_room(connection, &mut room, segment).await?;
            }
            let mut told = Told::new();
            for (_, change) in &segment.changes {
                room.take_palette(change, &mut told);
            }
            let reactions = segment
                .keys
                .iter()
                .map(|key| room.reaction(key, &mut told))
                .collect();
            write_reactions(connection, room.room_id, &told, !segment.changes.is_empty()).await?;
            numbers.push(Numbers {
                room_id: room.room_id,
                reactions,
            });
            self.rooms.insert(segment.code.clone(), room);
        }
        Ok(numbers)
    }

    /// Reads what the database knows of codes that are new to the dictionary.
    async fn load(&mut self, connection: &mut Connection, step: &Step) -> Result<(), Error> {
        let codes = step.segments.iter().map(|segment| &segment.code);
        let new = codes.filter(|code| !self.rooms.contains_key(*code));
        let new: Vec<&str> = new.map(RoomCode::as_str).collect();
        if new.is_empty() {
            return Ok(());
        }
        let rows = connection
            .query(
                "SELECT DISTINCT ON (code) code, room_id, (extract(epoch FROM created_at) * 1000)::bigint, version = 0 \
                 FROM rooms WHERE code = ANY($1) ORDER BY code, room_id DESC",
                &[&new],
            )
            .await?;
        for row in rows {
            let Ok(code) = row.get::<_, &str>(0).parse::<RoomCode>() else {
                continue;
            };
            let room = KnownRoom::new(row.get(1), row.get(2), row.get(3));
            let room = room.with_reactions(connection).await?;
            self.rooms.insert(code, room);
        }
        Ok(())
    }

    async fn room_of(
        &mut self,
        connection: &mut Connection,
        segment: &Segment,
    ) -> Result<KnownRoom, Error> {
        let named = segment.changes.first().map(|(_, change)| change);
        if let Some(known) = self.rooms.remove(&segment.code) {
            let is_same = |change: &RoomChange| {
                created_at_ms(change) == known.created_at_ms
                    || (known.placeholder && !segment.begins)
            };
            if named.is_none_or(is_same) {
                return Ok(known);
            }
        }
        insert_room(connection, segment, named).await
    }
}

impl KnownRoom {
    fn new(room_id: i32, created_at_ms: i64, placeholder: bool) -> Self {
        KnownRoom {
            room_id,
            created_at_ms,
            placeholder,
            reactions: HashMap::new(),
            last_id: 0,
        }
    }

    async fn with_reactions(mut self, connection: &mut Connection) -> Result<Self, Error> {
        let rows = connection
            .query(
                "SELECT key, reaction_id FROM reactions WHERE room_id = $1",
                &[&self.room_id],
            )
            .await?;
        for row in rows {
            let id: i16 = row.get(1);
            self.last_id = self.last_id.max(id);
            self.reactions.insert(row.get(0), id);
        }
        Ok(self)
    }

    /// The number of a key, a new one if need be.
    fn number(&mut self, key: &str) -> (i16, String) {
        if let Some(id) = self.reactions.get(key) {
            return (*id, key.to_owned());
        }
        let free = self.last_id.checked_add(1).filter(|id| *id < OTHER_ID);
        let (id, name) = match free {
            Some(id) => (id, key),
            None => (OTHER_ID, OTHER_KEY),
        };
        self.last_id = id;
        self.reactions.insert(name.to_owned(), id);
        (id, name.to_owned())
    }

    fn reaction(&mut self, key: &ReactionKey, told: &mut Told) -> i16 {
        let known = self.reactions.contains_key(key.as_str());
        let (id, name) = self.number(key.as_str());
        if !known {
            told.entry(id).or_insert((name, None));
        }
        id
    }

    /// The palette after a change; what an earlier one had and this one has not lies in no place any more.
    fn take_palette(&mut self, change: &RoomChange, told: &mut Told) {
        for (_, from_palette) in told.values_mut() {
            if let Some((_, _, position)) = from_palette {
                *position = None;
            }
        }
        for (position, entry) in change.room.palette.entries().iter().enumerate() {
            let (id, name) = self.number(entry.key.as_str());
            let position = i16::try_from(position).ok();
            let from_palette = (entry.emoji.clone(), entry.label.clone(), position);
            told.insert(id, (name, Some(from_palette)));
        }
    }
}

fn created_at_ms(change: &RoomChange) -> i64 {
    i64::try_from(change.room.created_at_ms).unwrap_or(i64::MAX)
}

/// Times of creation come from the log as they are, whatever they say; this keeps Postgres able to store them.
fn storable_ms(ms: i64) -> i64 {
    /// The year 9999: far within what a timestamptz can hold, and what others can parse.
    const LATEST: i64 = 253_370_764_800_000;
    ms.clamp(0, LATEST)
}

pub(crate) fn state_text(state: RoomState) -> &'static str {
    match state {
        RoomState::Open => "open",
        RoomState::Paused => "paused",
        RoomState::Closed => "closed",
    }
}

/// A row for a room that the database does not know. Without a change that names it, it is a placeholder: its creation
/// stood in a part of the log that was gone before this database was there.
async fn insert_room(
    connection: &mut Connection,
    segment: &Segment,
    named: Option<&RoomChange>,
) -> Result<KnownRoom, Error> {
    let created = storable_ms(named.map_or(segment.from_ms, created_at_ms));
    let version = named.map_or(0, |change| {
        i64::try_from(change.room.version).unwrap_or(i64::MAX)
    });
    let title = named.map_or("", |change| change.room.title.as_str());
    let state = named.map_or("unknown", |change| state_text(change.room.state));
    // The conflict is a code that comes back with the time of an older room: impossible in one log, and no reason to
    // stand still if a clock made it possible after all.
    let rows = connection
        .query(
            concat!(
                "INSERT INTO rooms (code, created_at, title, state, version) VALUES ($1, ",
                from_ms!("$2::bigint"),
                ", $3, $4, $5) ON CONFLICT (code, created_at) DO UPDATE SET title = rooms.title RETURNING room_id"
            ),
            &[&segment.code.as_str(), &created, &without_nul(title), &state, &version],
        )
        .await?;
    let placeholder = named.is_none();
    KnownRoom::new(rows[0].get(0), created, placeholder)
        .with_reactions(connection)
        .await
}

/// The room as the last change of the segment left it.
async fn update_room(
    connection: &mut Connection,
    room: &mut KnownRoom,
    segment: &Segment,
) -> Result<(), Error> {
    let Some((_, last)) = segment.changes.last() else {
        return Ok(());
    };
    let expired = segment
        .changes
        .iter()
        .rev()
        .find(|(_, c)| c.kind == RoomChangeKind::Expired);
    let expired_ms = expired.map(|(id, _)| storable_ms(i64::try_from(id.ms).unwrap_or(i64::MAX)));
    let created = storable_ms(created_at_ms(last));
    let cooldown = i32::try_from(last.room.cooldown_ms).unwrap_or(i32::MAX);
    let version = i64::try_from(last.room.version).unwrap_or(i64::MAX);
    connection
        .execute(
            concat!(
                "UPDATE rooms SET title = $2, state = $3, cooldown_ms = $4, version = $5, created_at = ",
                from_ms!("$6::bigint"),
                ", expired_at = coalesce(",
                from_ms!("$7::bigint"),
                ", expired_at) WHERE room_id = $1"
            ),
            &[
                &room.room_id,
                &without_nul(&last.room.title),
                &state_text(last.room.state),
                &cooldown,
                &version,
                &created,
                &expired_ms,
            ],
        )
        .await?;
    room.placeholder = false;
    room.created_at_ms = created;
    Ok(())
}

async fn write_reactions(
    connection: &mut Connection,
    room_id: i32,
    told: &Told,
    palette_changed: bool,
) -> Result<(), Error> {
    if palette_changed {
        connection
            .execute(
                "UPDATE reactions SET position = NULL WHERE room_id = $1 AND position IS NOT NULL",
                &[&room_id],
            )
            .await?;
    }
    if told.is_empty() {
        return Ok(());
    }
    let ids: Vec<i16> = told.keys().copied().collect();
    let keys: Vec<&str> = told.values().map(|(key, _)| key.as_str()).collect();
    let palette = || told.values().map(|(_, from_palette)| from_palette.as_ref());
    let emoji: Vec<Option<String>> = palette()
        .map(|p| p.map(|(emoji, _, _)| without_nul(emoji)))
        .collect();
    let labels: Vec<Option<String>> = palette()
        .map(|p| p.map(|(_, label, _)| without_nul(label)))
        .collect();
    let positions: Vec<Option<i16>> = palette()
        .map(|p| p.and_then(|(_, _, position)| *position))
        .collect();
    connection
        .execute(
            "INSERT INTO reactions (room_id, reaction_id, key, emoji, label, position) \
             SELECT $1, * FROM unnest($2::smallint[], $3::text[], $4::text[], $5::text[], $6::smallint[]) \
             ON CONFLICT (room_id, reaction_id) DO UPDATE SET \
             emoji = coalesce(excluded.emoji, reactions.emoji), \
             label = coalesce(excluded.label, reactions.label), position = excluded.position",
            &[&room_id, &ids, &keys, &emoji, &labels, &positions],
        )
        .await?;
    Ok(())
}

/// Postgres cannot store U+0000; gateways refuse it, but what is in the log must never stop a shard.
pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
