//! Waits: recorded in microseconds, told in milliseconds.

use hdrhistogram::Histogram;
use std::time::Duration;

/// For waits in microseconds: to three digits, up to an hour, beyond which nothing here waits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3)
        .expect("these bounds and digits are within what a histogram takes")
}

/// A span as a wait.
pub fn microseconds(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// A wait, told.
#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 microseconds are centuries"
)]
pub fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1000.0
}

/// So many of these waits take no longer, told; zero of none.
pub fn quantile_ms(waits: &Histogram<u64>, quantile: f64) -> f64 {
    milliseconds(waits.value_at_quantile(quantile))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_kept_to_three_digits() {
        let mut waits = histogram();
        for wait in [1, 20, 300] {
            waits.saturating_record(microseconds(Duration::from_millis(wait)));
        }
        assert!((quantile_ms(&waits, 0.5) - 20.0).abs() < 0.02);
        assert!((quantile_ms(&waits, 1.0) - 300.0).abs() < 0.3);
        assert_eq!(quantile_ms(&histogram(), 0.99), 0.0);
        waits.saturating_record(microseconds(Duration::MAX));
        assert!(quantile_ms(&waits, 1.0) >= 3_600_000.0);
    }
}
