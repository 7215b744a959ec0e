//! What the command says in the end, or as much of it as there was before it was interrupted.

use serde::Serialize;

/// All figures; `null` is what was not measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FloorReport {
    /// Whether Ctrl-C ended it early.
    pub interrupted: bool,
    /// The profile that the services were built with.
    pub profile: String,
    /// Name and value: operating system, processor, cores, memory.
    pub machine: Vec<(String, String)>,
    /// Why the figures are not to be believed, if so.
    pub remarks: Vec<String>,
    /// Phones of frames and taps.
    pub phones: usize,
    /// Bytes of the frame on the wire.
    pub frame_bytes: Option<usize>,
    /// CPU time of the gateway for each frame that a phone got, microseconds: the median.
    pub gateway_us_per_frame: Option<f64>,
    /// The same of the bare server.
    pub floor_us_per_frame: Option<f64>,
    /// One by the other.
    pub ratio: Option<f64>,
    /// Gateway and floor, in the order in which they were measured.
    pub frame_pairs: Vec<(f64, f64)>,
    /// CPU time of the gateway, microseconds a second, with all phones there and nothing happening. It is in
    /// `gateway_us_per_frame`, too.
    pub background_us_per_second: Option<f64>,
    /// Phones of the memory's figures.
    pub memory_phones: Option<usize>,
    /// Resident memory for each idle phone.
    pub bytes_per_phone: Option<u64>,
    /// How many taps each had made before
    pub taps_per_phone: Option<u32>,
    /// the resident memory for each phone was this.
    pub bytes_per_phone_after_taps: Option<u64>,
    /// How many phones read nothing for a minute,
    pub stalled_phones: Option<usize>,
    /// and what each of them cost then, all of it.
    pub bytes_per_stalled_phone: Option<u64>,
    /// CPU time of the gateway for each tap that it took into an open batch, microseconds: the median.
    pub gateway_us_per_tap: Option<f64>,
    /// The same of the bare server, which receives and unmasks.
    pub floor_us_per_tap: Option<f64>,
    /// One by the other.
    pub tap_ratio: Option<f64>,
    /// Gateway and floor, in the order in which they were measured.
    pub tap_pairs: Vec<(f64, f64)>,
    /// CPU time of the gateway for each tap by POST, answered: microseconds.
    pub post_us_per_tap: Option<f64>,
    /// Taps by POST that one core would take a second.
    pub posts_per_core_second: Option<f64>,
    /// Taps over WebSockets that one core takes a second, appended and acknowledged, with ticks to all phones.
    pub taps_per_core_second: Option<f64>,
    /// The same by how fast they came: appends do not grow with taps.
    pub intake: Vec<Intake>,
}

/// Taps taken in, appended and acknowledged.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Intake {
    /// Phones that tapped again as soon as they had the answer.
    pub tapping_phones: usize,
    /// Acknowledged.
    pub taps_per_second: f64,
    /// Cores that the gateway used.
    pub gateway_cores: f64,
    /// CPU time of the gateway for each tap, microseconds, ticks to all phones included.
    pub gateway_us_per_tap: f64,
    /// Entries appended to Redis.
    pub appends_per_second: f64,
    /// Entries per tap.
    pub appends_per_tap: f64,
}

impl FloorReport {
    /// Sets the figures that follow from the pairs.
    pub(super) fn settle(&mut self) {
        let figures = |pairs: &[(f64, f64)]| {
            let gateway = median(pairs.iter().map(|pair| pair.0))?;
            let floor = median(pairs.iter().map(|pair| pair.1))?;
            Some((rounded(gateway), rounded(floor), rounded(gateway / floor)))
        };
        if let Some((gateway, floor, ratio)) = figures(&self.frame_pairs) {
            self.gateway_us_per_frame = Some(gateway);
            self.floor_us_per_frame = Some(floor);
            self.ratio = Some(ratio);
        }
        if let Some((gateway, floor, ratio)) = figures(&self.tap_pairs) {
            self.gateway_us_per_tap = Some(gateway);
            self.floor_us_per_tap = Some(floor);
            self.tap_ratio = Some(ratio);
        }
    }
}

/// The middle one, or the mean of the two in the middle.
fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(numbers[middle]),
        _ => Some(f64::midpoint(numbers[middle - 1], numbers[middle])),
    }
}

/// Three digits behind the point: a nanosecond.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_one_that_is_far_off() {
        assert_eq!(median([3.0, 1.0, 100.0].into_iter()), Some(3.0));
        assert_eq!(median([4.0, 1.0].into_iter()), Some(2.5));
        assert_eq!(median([].into_iter()), None);
    }

    #[test]
    fn a_ratio_comes_from_the_pairs() {
        let mut report = FloorReport {
            frame_pairs: vec![(5.5, 5.0), (9.0, 5.0), (5.5, 8.0)],
            ..FloorReport::default()
        };
        report.settle();
        assert_eq!(report.ratio, Some(1.1));
        assert_eq!(report.tap_ratio, None);
    }
}
