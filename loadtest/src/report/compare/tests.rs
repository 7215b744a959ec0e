use super::*;
use crate::report::{RunReport, sample};
use serde_json::json;

fn file(name: &str, report: &RunReport) -> ReportFile {
    let text = serde_json::to_string(report).unwrap();
    ReportFile::parse(name.to_owned(), &text).unwrap()
}

/// The sample run once it was altered, as a file.
fn altered(name: &str, alter: impl FnOnce(&mut RunReport)) -> ReportFile {
    let mut report = sample::run(60);
    alter(&mut report);
    file(name, &report)
}

fn row<'c>(comparison: &'c Comparison, figure: &str) -> &'c Row {
    let found = comparison.rows.iter().find(|row| row.figure == figure);
    found.unwrap_or_else(|| panic!("no {figure} in {comparison:?}"))
}

#[test]
fn the_same_is_within_noise() {
    let same = altered("a.json", |_| {});
    let compared = compare(std::slice::from_ref(&same), std::slice::from_ref(&same)).unwrap();
    assert_eq!((compared.better, compared.worse), (0, 0));
    assert_eq!(compared.within_noise, compared.rows.len());
    assert!(compared.rows.len() >= 17, "{compared:?}");
    assert!(
        compared.warnings.is_empty() && compared.differences.is_empty(),
        "{compared:?}"
    );
}

#[test]
fn a_promise_has_no_noise() {
    let before = altered("a.json", |_| {});
    let after = altered("b.json", |report| {
        report.lost = Some(1);
        report.delivered -= 1;
    });
    let compared = compare(&[before], &[after]).unwrap();
    for figure in ["lost", "missing"] {
        let row = row(&compared, figure);
        assert_eq!((row.before, row.after), (Some(0.0), Some(1.0)));
        assert_eq!((row.noise, row.verdict), (Some(0.0), Verdict::Worse));
    }
    assert_eq!(compared.worse, 2);
}

#[test]
fn cpu_that_doubled_is_worse_and_what_wobbled_is_not() {
    let before = altered("a.json", |_| {});
    let after = altered("b.json", |report| {
        report.gateway_us_per_frame = report.gateway_us_per_frame.map(|us| us * 2.0);
        report.generator_us_per_frame = report.generator_us_per_frame.map(|us| us * 1.05);
        report.joins_per_core_second = report.joins_per_core_second.map(|joins| joins * 2.0);
        report.gateway_cores = report.gateway_cores.map(|cores| cores * 0.5);
    });
    let compared = compare(&[before], &[after]).unwrap();
    let verdict = |figure| row(&compared, figure).verdict;
    assert_eq!(verdict("gateway_us_per_frame"), Verdict::Worse);
    assert_eq!(
        row(&compared, "gateway_us_per_frame").change_percent,
        Some(100.0)
    );
    assert_eq!(verdict("generator_us_per_frame"), Verdict::WithinNoise);
    assert_eq!(verdict("joins_per_core_second"), Verdict::Better);
    assert_eq!(verdict("gateway_cores"), Verdict::Better);
    assert_eq!((compared.better, compared.worse), (2, 1));
}

#[test]
fn percentiles_have_the_noise_of_their_distribution() {
    use super::figures::Varies;
    let error = |seconds: bool, times: u64| {
        let file = altered("a.json", |report| {
            if !seconds {
                report.seconds.clear();
            }
            for distribution in &mut report.distributions {
                distribution.count *= times;
                for (_, count) in &mut distribution.buckets {
                    *count *= times;
                }
            }
        });
        let varies = Varies::Percentile("beyond_window", 0.99);
        file.own_error(56.0, varies).unwrap()
    };
    let ratio = error(false, 1) / error(false, 100);
    assert!(
        (8.0..12.0).contains(&ratio),
        "a hundred times the waits, {ratio} times the error"
    );
    assert!(
        error(true, 1) > error(false, 1),
        "a bad second is a reason to doubt"
    );
    let before = altered("a.json", |_| {});
    let slower = altered("b.json", |report| report.beyond_window_p99_ms = Some(295.0));
    let compared = compare(&[before], &[slower]).unwrap();
    assert_eq!(
        row(&compared, "beyond_window_p99_ms").verdict,
        Verdict::Worse
    );
}

#[test]
fn several_reports_a_side_say_their_noise_themselves() {
    let at = |us: f64| altered("x.json", |report| report.gateway_us_per_frame = Some(us));
    let before = [at(9.0), at(10.0), at(11.0)];
    let after = [at(11.0), at(12.0), at(13.0)];
    let compared = compare(&before, &after).unwrap();
    let compared_row = row(&compared, "gateway_us_per_frame");
    assert_eq!(
        (compared_row.before, compared_row.after),
        (Some(10.0), Some(12.0))
    );
    assert_eq!(
        compared_row.verdict,
        Verdict::WithinNoise,
        "{compared_row:?}"
    );
    let close = [at(9.99), at(10.0), at(10.01)];
    let compared = compare(&close, &after[1..2]).unwrap();
    assert_eq!(
        row(&compared, "gateway_us_per_frame").verdict,
        Verdict::Worse
    );
    let compared = compare(&after, &close).unwrap();
    assert_eq!(
        row(&compared, "gateway_us_per_frame")
            .change_percent
            .unwrap()
            .round(),
        -17.0
    );
}

#[test]
fn what_one_side_did_not_measure_is_unknown() {
    let before = altered("a.json", |_| {});
    let after = altered("b.json", |report| {
        report.tick_p99_ms = None;
        report.lost = None;
    });
    let compared = compare(&[before], std::slice::from_ref(&after)).unwrap();
    assert_eq!(row(&compared, "tick_p99_ms").verdict, Verdict::Unknown);
    assert_eq!(row(&compared, "lost").after, None);
    let neither = compare(std::slice::from_ref(&after), std::slice::from_ref(&after)).unwrap();
    assert!(neither.rows.iter().all(|row| row.figure != "tick_p99_ms"));
}

#[test]
fn what_should_not_be_compared_is_said() {
    let before = altered("a.json", |_| {});
    let after = altered("b.json", |report| {
        report.scenario = "Wi-Fi drop".to_owned();
        report.phones = 400;
        report.circumstances.machine[2].1 = "64".to_owned();
        report.vetoes = vec!["busy".to_owned()];
        report.interrupted = true;
        report.window.1 += 10.0;
        report.circumstances.versions[0].1 = "0.2.0 (release)".to_owned();
        report.circumstances.settings.pop();
    });
    let compared = compare(&[before], &[after]).unwrap();
    let said = compared.warnings.join("\n");
    for part in [
        "the scenario differs: \"Keynote hall\" in a.json, \"Wi-Fi drop\" in b.json",
        "the number of phones differs: 5000 in a.json, 400 in b.json",
        "the machine differs:",
        "b.json is not to be believed",
        "b.json was interrupted",
        "the measured time differs: 60 s in a.json, 70 s in b.json",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert_eq!(
        compared.differences,
        [
            "uproar: 0.1.0 (release), then 0.2.0 (release)",
            "generator threads: 1, then none"
        ]
    );
    let text = compared.markdown();
    assert!(
        text.contains("> **Careful:** the scenario differs"),
        "{text}"
    );
    assert!(
        text.contains("Not the same: uproar: 0.1.0 (release), then 0.2.0 (release);"),
        "{text}"
    );
}

#[test]
fn the_table_is_markdown() {
    let before = altered("a.json", |_| {});
    let after = altered("b.json", |report| {
        report.gateway_us_per_frame = Some(4.935);
        report.lost = Some(2);
        report.tick_p99_ms = None;
    });
    let text = compare(&[before], &[after]).unwrap().markdown();
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{text}");
    }
    assert!(text.starts_with("### `run`: 1 better, 1 worse, "), "{text}");
    assert!(text.contains("\n| figure | before | after | change | noise | verdict |\n|---|---:|"));
    assert!(
        text.contains("\n| `lost` | 0 | 2 | +2 | none | **worse** |\n"),
        "{text}"
    );
    assert!(
        text.contains("\n| `gateway_us_per_frame` | 9.87 | 4.935 | -50.0 % | ± "),
        "{text}"
    );
    assert!(
        text.contains("| not measured |  |  | unknown |\n"),
        "{text}"
    );
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert!(
        rows.iter().all(|row| row.matches('|').count() == 7),
        "{text}"
    );
}

#[test]
fn reports_of_other_commands() {
    let floor = |name: &str, pairs: serde_json::Value, ratio: f64| {
        let report = json!({
            "phones": 5000, "frame_pairs": pairs, "ratio": ratio,
            "gateway_us_per_frame": 3.3, "floor_us_per_frame": 3.0, "bytes_per_phone": 1400,
            "remarks": [],
        });
        ReportFile::parse(name.to_owned(), &report.to_string()).unwrap()
    };
    let before = floor(
        "a.json",
        json!([
            [3.30, 3.0],
            [3.31, 3.0],
            [3.29, 3.0],
            [3.30, 3.0],
            [3.30, 3.0]
        ]),
        1.10,
    );
    let after = floor(
        "b.json",
        json!([
            [3.03, 3.0],
            [3.04, 3.0],
            [3.02, 3.0],
            [3.03, 3.0],
            [3.03, 3.0]
        ]),
        1.01,
    );
    let compared = compare(std::slice::from_ref(&before), &[after]).unwrap();
    assert_eq!(compared.command, "floor");
    assert_eq!(
        row(&compared, "ratio").verdict,
        Verdict::Better,
        "{compared:?}"
    );
    let wobbly = floor("b.json", json!([[2.5, 3.0], [3.03, 3.0], [3.8, 3.0]]), 1.01);
    let compared = compare(std::slice::from_ref(&before), &[wobbly]).unwrap();
    assert_eq!(
        row(&compared, "ratio").verdict,
        Verdict::WithinNoise,
        "{compared:?}"
    );

    let run = altered("run.json", |_| {});
    let error = compare(&[before], &[run]).unwrap_err().to_string();
    assert_eq!(
        error,
        "a.json is of floor and run.json is of run: compare two of the same"
    );
}

#[test]
fn wrong_files_are_explained() {
    let parse = |text: &str| {
        ReportFile::parse("x.json".to_owned(), text)
            .unwrap_err()
            .to_string()
    };
    assert!(
        parse("### not JSON").contains("x.json is no JSON"),
        "{}",
        parse("###")
    );
    assert!(parse("{\"a\":1}").contains("none of their figures"));
    let halfway = "{\"scenario\":5,\"expected\":1,\"delivered\":1}";
    assert!(parse(halfway).contains("x.json looks like a result of run, but is not"));
    let error = ReportFile::read(std::path::Path::new("/no/such.json"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("/no/such.json cannot be read"), "{error}");
    assert!(matches!(compare(&[], &[]), Err(CompareError::Empty)));
}

#[test]
fn standard_output_will_do() {
    let report = serde_json::to_string(&sample::run(60)).unwrap();
    let text = format!("something before\n{report}\n\n");
    let file = ReportFile::parse("out.txt".to_owned(), &text).unwrap();
    assert_eq!(file.command, Command::Run);
}
