//! The command line of `export`.

use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use shared::room::RoomCode;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For spreadsheets.
    Csv,
    /// For programs.
    Json,
}

/// What is to be exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which room.
    pub room: RoomCode,
    /// When it was created, where a code was used again; none: the latest.
    pub created: Option<Timestamp>,
    /// Seconds that begin at this time or later.
    pub from: Option<Timestamp>,
    /// Seconds that begin before this time.
    pub to: Option<Timestamp>,
    /// How it is written.
    pub form: Form,
}

/// The command line.
pub fn command() -> Command {
    let time = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("TIME").help(help)
    };
    let form = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .action(ArgAction::SetTrue)
            .help(help)
    };
    Command::new("export")
        .about("Writes a room's counts, a row for each reaction and second, to standard output.")
        .arg(Arg::new("room").long("room").value_name("CODE").required(true).help("The room's code"))
        .arg(form("csv", "As CSV for spreadsheets: UTF-8 with a byte order mark, cells that could be formulas made harmless"))
        .arg(form("json", "As one JSON object, with the totals at its end"))
        .group(ArgGroup::new("form").args(["csv", "json"]).required(true))
        .arg(time("from", "Only seconds from this time on: 2026-05-12, 2026-05-12T09:00:00Z or with an offset; without one it is UTC"))
        .arg(time("to", "Only seconds before this time"))
        .arg(time("created", "The room created at this time (to the second), where a code was used again [default: the latest]"))
}

impl Request {
    /// From the command line.
    ///
    /// # Errors
    /// What was wrong, and what would be right.
    pub fn from_matches(matches: &ArgMatches) -> anyhow::Result<Request> {
        let time = |name: &str| -> anyhow::Result<Option<Timestamp>> {
            let Some(text) = matches.get_one::<String>(name) else {
                return Ok(None);
            };
            let parsed = parse_time(text);
            Ok(Some(parsed.with_context(|| format!("--{name} {text}"))?))
        };
        let typed = matches.get_one::<String>("room").map_or("", String::as_str);
        let room = typed.parse().with_context(|| format!("--room {typed}"))?;
        let (created, from, to) = (time("created")?, time("from")?, time("to")?);
        if let (Some(from), Some(to)) = (from, to)
            && from >= to
        {
            bail!("--from {from} is not before --to {to}");
        }
        let form = if matches.get_flag("csv") {
            Form::Csv
        } else {
            Form::Json
        };
        Ok(Request {
            room,
            created,
            from,
            to,
            form,
        })
    }
}

fn parse_time(text: &str) -> anyhow::Result<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let civil = text
        .parse::<DateTime>()
        .or_else(|_| text.parse::<Date>().map(DateTime::from));
    let civil = civil.map_err(|_| {
        anyhow::anyhow!(
            "is no time: write 2026-05-12, 2026-05-12T09:00:00Z or 2026-05-12T11:00:00+02:00"
        )
    })?;
    Ok(civil.to_zoned(TimeZone::UTC)?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arguments: &[&str]) -> anyhow::Result<Request> {
        let all = ["export"].iter().chain(arguments);
        Request::from_matches(&command().try_get_matches_from(all)?)
    }

    #[test]
    fn reads_codes_and_times_as_people_type_them() {
        let typed = [
            "--room",
            "kx7-m2p",
            "--csv",
            "--from",
            "2026-05-12",
            "--to",
            "2026-05-12T11:00:00+02:00",
        ];
        let request = request(&typed).expect("right");
        assert_eq!(request.room.as_str(), "KX7M2P");
        assert_eq!(
            request.from.expect("given").to_string(),
            "2026-05-12T00:00:00Z"
        );
        assert_eq!(
            request.to.expect("given").to_string(),
            "2026-05-12T09:00:00Z"
        );
        assert_eq!(request.form, Form::Csv);
    }

    #[test]
    fn says_what_is_wrong() {
        for (arguments, said) in [
            (&["--room", "KX7M2P"][..], "--csv"),
            (
                &["--room", "KX7M2P", "--csv", "--json"],
                "cannot be used with",
            ),
            (&["--room", "x", "--csv"], "4 to 12 letters"),
            (
                &["--room", "KX7M2P", "--csv", "--from", "yesterday"],
                "is no time",
            ),
            (
                &[
                    "--room",
                    "KX7M2P",
                    "--csv",
                    "--from",
                    "2026-05-12",
                    "--to",
                    "2026-05-12",
                ],
                "not before",
            ),
        ] {
            let error = request(arguments).expect_err("wrong");
            assert!(format!("{error:#}").contains(said), "{error:#}");
        }
    }
}
