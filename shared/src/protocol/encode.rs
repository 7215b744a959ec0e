//! Writers for the frames of which there are many: one ack or refusal per tap, one tick per room and quarter second.
//! They write what serde would, without building the frame first.

use super::server::Why;
use crate::room::ReactionKey;
use std::io::Write;

/// Appends `{"ack":17}`.
pub fn write_ack(out: &mut Vec<u8>, seq: u32) {
    put(out, format_args!("{{\"ack\":{seq}}}"));
}

/// Appends `{"refused":{"seq":18,"why":"cooldown","retry_ms":1200}}`.
pub fn write_refused(out: &mut Vec<u8>, seq: u32, why: Why, retry_ms: Option<u64>) {
    put(
        out,
        format_args!("{{\"refused\":{{\"seq\":{seq},\"why\":\"{}\"", why.as_str()),
    );
    if let Some(retry_ms) = retry_ms {
        put(out, format_args!(",\"retry_ms\":{retry_ms}"));
    }
    out.extend_from_slice(b"}}");
}

/// Appends `{"tick":{"totals":{"clap":530}}}`.
pub fn write_tick<'a>(out: &mut Vec<u8>, totals: impl IntoIterator<Item = (&'a ReactionKey, u64)>) {
    out.extend_from_slice(b"{\"tick\":{\"totals\":{");
    for (index, (key, total)) in totals.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // A key has no symbol that JSON would escape.
        put(out, format_args!("{comma}\"{}\":{total}", key.as_str()));
    }
    out.extend_from_slice(b"}}}");
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing to a vector does not fail");
}

#[cfg(test)]
mod tests {
    use super::super::server::{Refused, ServerFrame, TickFrame};
    use super::*;
    use std::collections::BTreeMap;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn by_serde(frame: &ServerFrame) -> String {
        String::from_utf8(frame.encode()).unwrap()
    }

    #[test]
    fn acks_and_refusals_are_as_serde_writes_them() {
        for seq in [1, 17, u32::MAX] {
            assert_eq!(
                written(|out| write_ack(out, seq)),
                by_serde(&ServerFrame::Ack(seq))
            );
            for why in Why::ALL {
                for retry_ms in [None, Some(0), Some(1200), Some(u64::MAX)] {
                    assert_eq!(
                        written(|out| write_refused(out, seq, why, retry_ms)),
                        by_serde(&ServerFrame::Refused(Refused { seq, why, retry_ms }))
                    );
                }
            }
        }
    }

    #[test]
    fn ticks_are_as_serde_writes_them() {
        let key = |text: &str| text.parse::<ReactionKey>().unwrap();
        for totals in [
            BTreeMap::new(),
            BTreeMap::from([(key("clap"), 530)]),
            BTreeMap::from([(key("a_-9"), 0), (key("clap"), u64::MAX), (key("heart"), 3)]),
        ] {
            assert_eq!(
                written(|out| write_tick(out, totals.iter().map(|(key, total)| (key, *total)))),
                by_serde(&ServerFrame::Tick(TickFrame { totals }))
            );
        }
    }
}
