//! `uproar-persister export`: a room's counts, second by second, for those without SQL.
//!
//! The rows are those of `tap_counts`, read in one snapshot: their sums are the room's counts, whatever is being stored
//! meanwhile. A standby is as good a server for this as the primary.

mod csv_form;
mod json_form;
mod request;

use crate::database::connection::told;
use crate::database::from_ms;
use crate::settings::read_postgres;
use anyhow::{Context, bail};
use futures_util::TryStreamExt;
use jiff::Timestamp;
use std::io::Write;
use std::pin::pin;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

pub use request::{Form, Request, command};

/// Settings of `export`: section `[postgres]`.
#[derive(Debug, Clone)]
pub struct ExportSettings {
    postgres: tokio_postgres::Config,
}

impl ExportSettings {
    /// Reads them.
    pub fn read(reader: &mut shared::service::settings::Reader) -> Self {
        ExportSettings {
            postgres: read_postgres(reader),
        }
    }
}

/// The room that is exported.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ExportedRoom {
    room_id: i32,
    code: String,
    title: String,
    state: String,
    created_at: Timestamp,
    /// From its first tap to after its last; none where nobody ever tapped.
    tapped: Option<(Timestamp, Timestamp)>,
}

/// Room x reaction x second.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SecondRow {
    second: Timestamp,
    key: String,
    emoji: String,
    label: String,
    taps: i64,
    tappers: i64,
    unrecorded: i64,
}

/// What is written, row by row.
trait Writer {
    fn row(&mut self, row: &SecondRow) -> anyhow::Result<()>;
    fn end(self: Box<Self>) -> anyhow::Result<()>;
}

/// Writes a room's counts to `out`.
///
/// # Errors
/// The database cannot be reached or holds no such room; the message says what it holds instead.
pub async fn export(
    settings: &ExportSettings,
    request: &Request,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    let (client, connection) = settings
        .postgres
        .connect(NoTls)
        .await
        .map_err(|error| anyhow::anyhow!("cannot reach Postgres: {}", told(&error)))?;
    let driver = tokio::spawn(connection);
    let written = write(&client, request, out).await;
    driver.abort();
    match written {
        // Whoever reads our output has had enough (`| head`).
        Err(error) if is_broken_pipe(&error) => Ok(()),
        other => other,
    }
}

/// As [`export`], to standard output.
///
/// # Errors
/// See [`export`].
pub async fn to_stdout(settings: &ExportSettings, request: &Request) -> anyhow::Result<()> {
    export(
        settings,
        request,
        &mut std::io::BufWriter::new(std::io::stdout()),
    )
    .await
}

async fn write(
    client: &Client,
    request: &Request,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    let begin = "SET TIME ZONE 'UTC'; BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
    client.batch_execute(begin).await?;
    let there = client
        .query_one("SELECT to_regclass('tap_counts') IS NOT NULL", &[])
        .await?;
    anyhow::ensure!(
        there.get::<_, bool>(0),
        "this database holds no rooms: no persister has set it up"
    );
    let room = choose(rooms(client, request).await?, request)?;
    // Bounds that are always there, so that only the partitions in which the room lived are read.
    let (first, last) = room.tapped.unwrap_or((room.created_at, room.created_at));
    let from = request.from.unwrap_or(first).max(first);
    let to = request.to.unwrap_or(last).min(last);
    let mut writer: Box<dyn Writer + '_> = match request.form {
        Form::Csv => Box::new(csv_form::CsvWriter::new(out, &room)?),
        Form::Json => Box::new(json_form::JsonWriter::new(out, &room, request)?),
    };
    let (from, to) = (from.as_millisecond(), to.as_millisecond());
    let parameters: [&(dyn ToSql + Sync); 3] = [&room.room_id, &from, &to];
    let sql = concat!(
        "SELECT extract(epoch FROM c.second)::bigint, coalesce(x.key, ''), coalesce(x.emoji, ''), \
         coalesce(x.label, ''), c.taps::bigint, c.tappers::bigint, c.unrecorded::bigint FROM tap_counts c \
         LEFT JOIN reactions x ON x.room_id = c.room_id AND x.reaction_id = c.reaction_id \
         WHERE c.room_id = $1 AND c.second >= ",
        from_ms!("$2::bigint"),
        " AND c.second < ",
        from_ms!("$3::bigint"),
        " ORDER BY c.second, c.reaction_id"
    );
    let mut rows = pin!(client.query_raw(sql, parameters).await?);
    while let Some(row) = rows.try_next().await? {
        let second = Timestamp::from_second(row.get(0)).context("a second out of range")?;
        writer.row(&SecondRow {
            second,
            key: row.get(1),
            emoji: row.get(2),
            label: row.get(3),
            taps: row.get(4),
            tappers: row.get(5),
            unrecorded: row.get(6),
        })?;
    }
    writer.end()
}

/// All rooms that had the code, the latest first.
async fn rooms(client: &Client, request: &Request) -> anyhow::Result<Vec<ExportedRoom>> {
    let rows = client
        .query(
            "SELECT room_id, code, title, state, (extract(epoch FROM created_at) * 1000)::bigint, \
             extract(epoch FROM date_trunc('second', first_tap_at))::bigint, \
             extract(epoch FROM date_trunc('second', last_tap_at))::bigint + 1 \
             FROM rooms WHERE code = $1 ORDER BY room_id DESC",
            &[&request.room.as_str()],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let second = |column: usize| -> anyhow::Result<Option<Timestamp>> {
                let second = row.get::<_, Option<i64>>(column);
                Ok(second.map(Timestamp::from_second).transpose()?)
            };
            Ok(ExportedRoom {
                room_id: row.get(0),
                code: row.get(1),
                title: row.get(2),
                state: row.get(3),
                created_at: Timestamp::from_millisecond(row.get(4))?,
                tapped: second(5)?.zip(second(6)?),
            })
        })
        .collect()
}

fn choose(rooms: Vec<ExportedRoom>, request: &Request) -> anyhow::Result<ExportedRoom> {
    let times: Vec<String> = rooms
        .iter()
        .map(|room| room.created_at.to_string())
        .collect();
    let wanted = |room: &ExportedRoom| match request.created {
        None => true,
        // To the second: nobody types milliseconds.
        Some(created) => room.created_at.as_second() == created.as_second(),
    };
    match rooms.into_iter().find(wanted) {
        Some(room) => Ok(room),
        None if times.is_empty() => bail!("no room with the code {} has been stored", request.room),
        None => bail!(
            "no room with the code {} was created then; it was created at {} (the latest first)",
            request.room,
            times.join(", ")
        ),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
