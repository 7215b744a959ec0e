//! How fast the counting is, by itself: printed, not judged, since it depends on the machine.
//! `cargo test --release -p shared --test counting_speed -- --ignored --nocapture`

use shared::counting::ids::{ClientHash, EntryId, PageId, ProducerId, TapId};
use shared::counting::outbox::{AppendOutcome, Outbox, OutboxLimits, Step};
use shared::counting::reader::{Barrier, Folded, RawEntry, Reader};
use shared::room::{ReactionKey, RoomCode};
use std::time::Instant;

const PHONES: u64 = 200_000;
const TAPS_PER_BATCH: u64 = 200;
const BATCHES: u64 = 20_000;
const START_MS: u64 = 1_800_000_000_000;

#[test]
#[ignore = "a measurement"]
fn taps_per_second_on_one_core() {
    let room: RoomCode = "PARTY7".parse().expect("a code");
    let keys: Vec<ReactionKey> = ["clap", "heart", "laugh", "fire"]
        .map(|key| key.parse().expect("a key"))
        .into();
    let mut outbox = Outbox::new(
        ProducerId(7),
        OutboxLimits {
            open_taps_max: 10_000,
        },
    );
    let mut entries = Vec::new();
    let begun = Instant::now();
    for batch in 0..BATCHES {
        let now_ms = START_MS + batch * 5;
        for i in 0..TAPS_PER_BATCH {
            let tap = batch * TAPS_PER_BATCH + i;
            let phone = tap % PHONES;
            let id = TapId {
                client: ClientHash(phone.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                page: PageId(
                    u32::try_from(phone)
                        .expect("small")
                        .wrapping_mul(0x9e37_79b9),
                ),
                seq: 1 + u32::try_from(tap / PHONES).expect("small"),
            };
            let key = &keys[usize::try_from(tap % 4).expect("small")];
            outbox
                .push(&room, id, key, now_ms - i % 25, tap)
                .expect("there is room");
        }
        let Step::Append { value, .. } = outbox.step(now_ms, || ProducerId(8)) else {
            panic!("something is to be appended")
        };
        let id = EntryId { ms: now_ms, seq: 0 };
        drop(outbox.resolve(AppendOutcome::Stable(id), || ProducerId(8)));
        entries.push(RawEntry {
            id,
            field: b"b".to_vec(),
            value: value.to_vec(),
        });
    }
    let taps = BATCHES * TAPS_PER_BATCH;
    let bytes: usize = entries.iter().map(|entry| entry.value.len()).sum();
    tell("queued and sealed", taps, begun);
    println!("{:.2} bytes a tap", bytes as f64 / taps as f64);

    let mut reader = Reader::new();
    reader.loaded(EntryId::ZERO, []);
    let held = Barrier {
        lease_held: true,
        stable: true,
    };
    let mut counted = 0;
    let begun = Instant::now();
    for read in entries.chunks(100) {
        reader
            .read(read, false, held, &mut |_, folded| {
                if let Folded::Taps { taps, .. } = folded {
                    counted += taps.len() as u64;
                }
            })
            .expect("in order");
        reader.commit().expect("loaded").succeeded();
    }
    tell("decoded and folded", taps, begun);
    assert_eq!(counted, taps);
}

fn tell(what: &str, taps: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    println!("{what}: {:.2} million taps/s", taps as f64 / seconds / 1e6);
}
