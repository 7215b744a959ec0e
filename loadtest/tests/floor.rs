//! `uproar-loadtest floor` from its command line to its JSON, with few phones: whether it measures, not how fast.
#![expect(
    clippy::unwrap_used,
    reason = "clippy sees that functions are tests, not that their helpers are"
)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn floor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uproar-loadtest"));
    command.arg("floor").args(arguments);
    command
}

fn report(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last();
    let last = last.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(last).unwrap()
}

#[test]
fn frames_and_taps_are_measured() {
    let short = "--phones 100 --taps --pairs 1 --seconds 1 --memory-phones 0";
    let output = floor(&short.split(' ').collect::<Vec<_>>())
        .output()
        .unwrap();
    let report = report(&output);
    assert!(output.status.success(), "{report}");
    for figure in [
        "gateway_us_per_frame",
        "floor_us_per_frame",
        "ratio",
        "gateway_us_per_tap",
        "floor_us_per_tap",
        "tap_ratio",
        "post_us_per_tap",
        "taps_per_core_second",
    ] {
        assert!(
            report[figure].as_f64().is_some_and(|figure| figure > 0.0),
            "{figure} in {report}"
        );
    }
    assert_eq!(report["frame_bytes"], 62);
    assert_eq!(report["bytes_per_phone"], Value::Null);
}

#[test]
fn an_interrupted_measurement_tells_what_it_has() {
    let mut child = floor(&["--phones", "100", "--memory-phones", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(child.stderr.take().unwrap());
    let pair = told.lines().map_while(Result::ok);
    let mut pair = pair.filter(|line| line.starts_with("frames, 1 of 5"));
    assert!(pair.next().is_some(), "the first pair is told");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    // What it tells afterwards goes nowhere, but must not block it.
    let rest = std::thread::spawn(move || pair.count());
    let output = child.wait_with_output().unwrap();
    rest.join().unwrap();
    let report = report(&output);
    assert_eq!(report["interrupted"], true, "{report}");
    assert!(report["ratio"].as_f64().is_some(), "{report}");
    assert!(!output.status.success());
}

#[test]
fn wrong_use_is_explained() {
    for (arguments, told) in [
        (["--phones", "5"], "take at least 100"),
        (["--phones", "10000000"], "take at most"),
        (["--memory-phones", "10000000"], "take at most"),
        (["--seconds", "0"], "1..=30"),
    ] {
        let output = floor(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}
