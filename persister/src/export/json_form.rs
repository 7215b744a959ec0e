//! One JSON object, written as it is read; the totals stand at its end, since they are the sums of what was written.

use super::{ExportedRoom, Request, SecondRow, Writer};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;

pub(super) struct JsonWriter<'a> {
    out: &'a mut (dyn Write + Send),
    is_first: bool,
    totals: BTreeMap<String, Total>,
}

#[derive(Debug, Default)]
struct Total {
    taps: i64,
    unrecorded: i64,
}

impl<'a> JsonWriter<'a> {
    pub(super) fn new(
        out: &'a mut (dyn Write + Send),
        room: &ExportedRoom,
        request: &Request,
    ) -> anyhow::Result<Self> {
        let head = json!({
            "code": room.code,
            "title": room.title,
            "state": room.state,
            "created_at": room.created_at.to_string(),
        });
        let bound = |time: Option<jiff::Timestamp>| json!(time.map(|time| time.to_string()));
        let (from, to) = (bound(request.from), bound(request.to));
        write!(
            out,
            "{{\"room\":{head},\n\"from\":{from},\"to\":{to},\n\"seconds\":["
        )?;
        Ok(JsonWriter {
            out,
            is_first: true,
            totals: BTreeMap::new(),
        })
    }
}

impl Writer for JsonWriter<'_> {
    fn row(&mut self, row: &SecondRow) -> anyhow::Result<()> {
        let total = self.totals.entry(row.key.clone()).or_default();
        total.taps += row.taps;
        total.unrecorded += row.unrecorded;
        let text = json!({
            "second": row.second.to_string(),
            "key": row.key,
            "emoji": row.emoji,
            "label": row.label,
            "taps": row.taps,
            "tappers": row.tappers,
            "unrecorded": row.unrecorded,
        });
        let comma = if std::mem::take(&mut self.is_first) {
            ""
        } else {
            ","
        };
        Ok(write!(self.out, "{comma}\n{text}")?)
    }

    fn end(self: Box<Self>) -> anyhow::Result<()> {
        let of = |total: &Total| json!({"taps": total.taps, "unrecorded": total.unrecorded});
        let totals: serde_json::Map<_, _> = self
            .totals
            .iter()
            .map(|(key, total)| (key.clone(), of(total)))
            .collect();
        writeln!(
            self.out,
            "\n],\n\"totals\":{}}}",
            serde_json::Value::Object(totals)
        )?;
        Ok(self.out.flush()?)
    }
}
