//! A small backlog on the whole system: every row and every count is right, and the comparison notices when one is not.

use loadtest::backlog::{self, Options, Size};
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_small_backlog_is_stored_row_by_row() {
    let options = Options {
        size: Size {
            taps: 20_000,
            span_ms: 20_000,
            gateways: 2,
        },
        rooms: 4,
        rounds: 1,
        phones: 6,
        rows_per_transaction: 50_000,
    };
    let going_on = CancellationToken::new();
    let run = backlog::run(&options, &going_on, |step| println!("{step}"));
    let (report, _) = run.await.unwrap();
    println!("{report:?}");
    assert_eq!((report.lost, report.doubled), (0, 0));
    assert_eq!((report.found.rows, report.found.counted), (20_000, 20_000));
    assert_eq!((report.found.wrong_counts, report.totals), (0, 20_000));
    assert_eq!(report.postgres["synchronous_commit"], "on");
    assert!(report.live_taps > 0 && report.live_ack_p99_ms > 0.0);
    let round = &report.rounds[0];
    assert!(round.transactions >= 4, "one of each room's at least");
    assert!(round.copy_seconds > 0.0 && round.catch_up_seconds >= round.first_commit_seconds);
}
