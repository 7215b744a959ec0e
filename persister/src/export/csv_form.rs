//! CSV that a spreadsheet opens safely: with a byte order mark, or Excel takes emoji for Latin-1, and without cells that
//! it would run as formulas.

use super::{ExportedRoom, SecondRow, Writer};
use csv::{Terminator, WriterBuilder};
use jiff::tz::TimeZone;
use std::io::Write;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

const HEADER: [&str; 9] = [
    "second (UTC)",
    "room",
    "room created (UTC)",
    "reaction",
    "emoji",
    "label",
    "taps (count)",
    "tappers (different phones)",
    "unrecorded (taps without a row of their own)",
];

pub(super) struct CsvWriter<'a> {
    csv: csv::Writer<&'a mut (dyn Write + Send)>,
    code: String,
    created: String,
}

impl<'a> CsvWriter<'a> {
    pub(super) fn new(
        out: &'a mut (dyn Write + Send),
        room: &ExportedRoom,
    ) -> anyhow::Result<Self> {
        out.write_all(BYTE_ORDER_MARK)?;
        let mut csv = WriterBuilder::new()
            .terminator(Terminator::CRLF)
            .from_writer(out);
        csv.write_record(HEADER)?;
        let (code, created) = (harmless(&room.code), time(room.created_at));
        Ok(CsvWriter { csv, code, created })
    }
}

impl Writer for CsvWriter<'_> {
    fn row(&mut self, row: &SecondRow) -> anyhow::Result<()> {
        self.csv.write_record([
            time(row.second).as_str(),
            self.code.as_str(),
            self.created.as_str(),
            harmless(&row.key).as_str(),
            harmless(&row.emoji).as_str(),
            harmless(&row.label).as_str(),
            row.taps.to_string().as_str(),
            row.tappers.to_string().as_str(),
            row.unrecorded.to_string().as_str(),
        ])?;
        Ok(())
    }

    fn end(mut self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.csv.flush()?)
    }
}

/// As spreadsheets recognise times.
fn time(at: jiff::Timestamp) -> String {
    at.to_zoned(TimeZone::UTC)
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// A text that no spreadsheet takes for a formula: those begin with one of a few characters, which get an apostrophe
/// in front. The same within a text after what a spreadsheet of another country takes for the end of a cell.
fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len() + 1);
    let mut at_start = true;
    for symbol in text.chars() {
        let begins_formula = matches!(
            symbol,
            '=' | '+' | '-' | '@' | '\t' | '\r' | '\n' | '＝' | '＋' | '－' | '＠'
        );
        if at_start && begins_formula {
            harmless.push('\'');
        }
        harmless.push(symbol);
        at_start = matches!(symbol, ';' | ',' | '\t' | '\r' | '\n' | '|' | '"');
    }
    harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_texts_and_texts_stay() {
        for (text, expected) in [
            ("=1+1", "'=1+1"),
            ("+49 30", "'+49 30"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t'=1"),
            ("\r=1", "'\r'=1"),
            ("＝1", "'＝1"),
            ("yes;=cmd|' /C calc'!A0", "yes;'=cmd|' /C calc'!A0"),
            ("a=b", "a=b"),
            ("Applause 👏", "Applause 👏"),
            ("", ""),
        ] {
            assert_eq!(harmless(text), expected);
        }
    }
}
