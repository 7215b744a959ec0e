//! Fewer points than seconds, so that the page of a long run stays small.

/// How a few neighbours become one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Keep {
    /// The largest: a bad second must not disappear.
    Most,
    /// Their mean: the rate.
    Mean,
}

/// At most so many points, each of the same number of neighbours, placed at their first; and that number.
pub(in super::super) fn thin(
    points: &[(f64, f64)],
    most: usize,
    keep: Keep,
) -> (Vec<(f64, f64)>, usize) {
    let each = points.len().div_ceil(most.max(1)).max(1);
    let one = |group: &[(f64, f64)]| {
        let values = group.iter().map(|(_, value)| *value);
        let value = match keep {
            Keep::Most => values.fold(f64::NEG_INFINITY, f64::max),
            #[expect(
                clippy::cast_precision_loss,
                reason = "a group has some hundred points at the most"
            )]
            Keep::Mean => values.sum::<f64>() / group.len() as f64,
        };
        (group[0].0, value)
    };
    (points.chunks(each).map(one).collect(), each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_second_does_not_disappear() {
        let mut points: Vec<(f64, f64)> = (0..601).map(|at| (f64::from(at), 10.0)).collect();
        points[317].1 = 900.0;
        let (kept, each) = thin(&points, 300, Keep::Most);
        assert_eq!((kept.len(), each), (201, 3));
        assert!(kept.contains(&(315.0, 900.0)), "{kept:?}");
        let (kept, _) = thin(&points, 300, Keep::Mean);
        assert!(kept.contains(&(315.0, (900.0 + 20.0) / 3.0)));
    }

    #[test]
    fn short_series_stay() {
        let points = [(0.0, 1.0), (1.0, 2.0)];
        assert_eq!(thin(&points, 300, Keep::Mean), (points.to_vec(), 1));
        assert_eq!(thin(&[], 300, Keep::Mean), (vec![], 1));
    }
}
