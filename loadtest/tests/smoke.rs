//! A small smoke run on the whole system, and whether its comparison notices when a row is altered afterwards: a
//! comparison that cannot fail proves nothing.
#![expect(
    clippy::unwrap_used,
    reason = "clippy sees that functions are tests, not that their helpers are"
)]

use loadtest::evidence;
use loadtest::smoke::{self, Report, SmokeOptions, Smoked};
use redis::cmd;
use std::time::Duration;

/// Changes something with one statement, looks, and changes it back with another.
async fn with_altered(
    smoked: &Smoked,
    postgres: &tokio_postgres::Client,
    alter: &str,
    undo: &str,
) -> Report {
    assert_eq!(postgres.execute(alter, &[]).await.unwrap(), 1, "{alter}");
    let report = smoked.report().await.unwrap();
    assert_eq!(postgres.execute(undo, &[]).await.unwrap(), 1, "{undo}");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_run_holds_and_the_comparison_notices_each_alteration() {
    let tapping = Duration::from_secs(4);
    let options = SmokeOptions {
        phones: 30,
        tapping,
        ..SmokeOptions::default()
    };
    let smoked = smoke::run(&options, |step| println!("{step}"))
        .await
        .unwrap();
    let report = smoked.report().await.unwrap();
    assert!(report.verdict.holds(), "{:?}", report.verdict);
    assert!(report.verdict.acked >= 60, "{:?}", report.verdict);
    assert_eq!((report.verdict.lost, report.verdict.doubled), (0, 0));

    let url = smoked.stack.rig.postgres_url();
    let (postgres, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    // One row, kept aside so that it can be put back.
    postgres
        .batch_execute("CREATE TABLE kept AS SELECT * FROM taps ORDER BY tapped_at, client LIMIT 1")
        .await
        .unwrap();
    let one = "(tableoid, ctid) = (SELECT t.tableoid, t.ctid FROM taps t JOIN kept k \
               USING (tapped_at, client, room_id, reaction_id) LIMIT 1)";

    let delete = format!("DELETE FROM taps WHERE {one}");
    let insert = "INSERT INTO taps (tapped_at, client, room_id, reaction_id) \
                  SELECT tapped_at, client, room_id, reaction_id FROM kept";
    let missing = with_altered(&smoked, &postgres, &delete, insert)
        .await
        .verdict;
    assert_eq!(
        (missing.lost, missing.doubled, missing.holds()),
        (1, 0, false)
    );

    let doubled = with_altered(&smoked, &postgres, insert, &delete)
        .await
        .verdict;
    assert_eq!(
        (doubled.lost, doubled.doubled, doubled.holds()),
        (0, 1, false)
    );

    // Another reaction of the same room, of which each has twelve.
    let other = "(SELECT min(x.reaction_id) FROM reactions x JOIN kept k USING (room_id) \
                 WHERE x.reaction_id <> k.reaction_id)";
    let move_away = format!("UPDATE taps SET reaction_id = {other} WHERE {one}");
    let move_back = format!(
        "UPDATE taps SET reaction_id = (SELECT reaction_id FROM kept) WHERE (tableoid, ctid) = \
         (SELECT t.tableoid, t.ctid FROM taps t JOIN kept k USING (tapped_at, client, room_id) \
          WHERE t.reaction_id = {other} LIMIT 1)"
    );
    let moved = with_altered(&smoked, &postgres, &move_away, &move_back)
        .await
        .verdict;
    assert_eq!((moved.lost, moved.doubled, moved.holds()), (1, 1, false));

    let count = |sign: &str| {
        format!(
            "UPDATE tap_counts SET taps = taps {sign} 1 WHERE (tableoid, ctid) = \
             (SELECT tableoid, ctid FROM tap_counts ORDER BY second, room_id, reaction_id LIMIT 1)"
        )
    };
    let counted = with_altered(&smoked, &postgres, &count("+"), &count("-"))
        .await
        .verdict;
    assert_eq!((counted.doubled, counted.holds()), (1, false));

    // A total that is there: one less of it must still be a number that a total can be.
    let totals = evidence::totals(&smoked.stack.rig, smoked.shards(), &smoked.rooms);
    let totals = totals.await.unwrap();
    let ((room, key), _) = totals.iter().find(|(_, total)| **total > 0).unwrap();
    let slot = smoked.shards().slot(smoked.shards().of(room));
    for (by, lost, doubled) in [(1, 0, 1), (-2, 1, 0), (1, 0, 0)] {
        let mut add = cmd("HINCRBY");
        add.arg(smoked.shards().totals(room))
            .arg(key.as_str())
            .arg(by);
        let _: i64 = smoked.stack.rig.cluster.request(slot, &add).await.unwrap();
        let verdict = smoked.report().await.unwrap().verdict;
        assert_eq!((verdict.lost, verdict.doubled), (lost, doubled));
        assert_eq!(verdict.holds(), lost + doubled == 0, "{verdict:?}");
    }
}
