//! Numbers for people: grouped, and with as many digits as say something.

/// Four significant digits at the most, thousands grouped; whole numbers whole.
pub fn grouped(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string();
    }
    if number.fract() == 0.0 {
        return with_commas(&format!("{number:.0}"));
    }
    let magnitude = number.abs().log10().floor();
    // Below a millionth nobody cares, and above a thousand fractions are noise.
    let decimals = (3.0 - magnitude).clamp(0.0, 6.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0 to 6 just above"
    )]
    let decimals = decimals as usize;
    let text = format!("{number:.decimals$}");
    if decimals == 0 {
        return with_commas(&text);
    }
    with_commas(text.trim_end_matches('0').trim_end_matches('.'))
}

/// A count, thousands grouped.
pub fn whole(count: u64) -> String {
    with_commas(&count.to_string())
}

/// A part in percent, never rounded to 100 unless it is all; none: of nothing.
pub fn share(part: u64, of: u64) -> Option<String> {
    if of == 0 {
        return None;
    }
    if part == of {
        return Some("100 %".to_owned());
    }
    let percent = float(part) * 100.0 / float(of);
    // As many digits as it takes to tell it from 100.
    let digits = |decimals: usize| format!("{percent:.decimals$} %");
    let told = (2..=9)
        .map(digits)
        .find(|text| part > of || !text.starts_with("100"));
    Some(told.unwrap_or_else(|| digits(9)))
}

/// Bytes with a unit of a thousand each.
pub fn bytes(count: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("GB", 1e9), ("MB", 1e6), ("KB", 1e3)];
    let count = float(count);
    for (unit, size) in UNITS {
        if count >= size {
            return format!(
                "{:.*} {unit}",
                usize::from(count / size < 100.0),
                count / size
            );
        }
    }
    format!("{count:.0} B")
}

/// A count as a float.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a run are far below 2^53, up to which floats hold each whole number"
)]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// `1234567.8` as `1,234,567.8`.
fn with_commas(number: &str) -> String {
    let (sign, number) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (number, String::new()),
    };
    let mut text = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + &fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_digits_as_say_something() {
        for (number, text) in [
            (0.0, "0"),
            (5.0, "5"),
            (-1234567.0, "-1,234,567"),
            (1234.56, "1,235"),
            (132.46, "132.5"),
            (3.24159, "3.242"),
            (0.012345, "0.01235"),
            (0.000_000_123, "0"),
            (100.1 - 100.0, "0.1"),
            (999_999.0, "999,999"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(whole(0), "0");
        assert_eq!(whole(1_000), "1,000");
        assert_eq!(whole(12_345_678), "12,345,678");
    }

    #[test]
    fn only_all_of_it_is_a_hundred_percent() {
        assert_eq!(share(10, 10).as_deref(), Some("100 %"));
        assert_eq!(share(1, 2).as_deref(), Some("50.00 %"));
        assert_eq!(share(9_999, 10_000).as_deref(), Some("99.99 %"));
        assert_eq!(share(9_999_999, 10_000_000).as_deref(), Some("99.99999 %"));
        assert_eq!(share(101, 100).as_deref(), Some("101.00 %"));
        assert_eq!(share(0, 0), None);
    }

    #[test]
    fn bytes_have_units() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_500, "1.5 KB"),
            (123_456, "123 KB"),
            (12_345_678, "12.3 MB"),
            (2_500_000_000, "2.5 GB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
