//! Tests of the front of a binary. What ends a process is tried on a child: this test binary, started again with a
//! variable that tells the one test `child` what to do.

use super::*;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command as Process, Stdio};

const ABOUT: About = About {
    name: "uproar-test",
    what: "Tries the front of a binary.",
    examples: "Examples:\n  uproar-test --config test.toml",
};
const DO: &str = "SERVICE_TEST_CHILD";

fn read(reader: &mut Reader) -> u64 {
    reader.number("gateway.taps", 5, 1..=10, "how many taps")
}

/// Not a test of its own: the body of the child processes below.
#[test]
fn child() {
    let Ok(what) = std::env::var(DO) else { return };
    let arguments = what.split(' ');
    let matches = command(ABOUT)
        .subcommand(Command::new("export").arg(Arg::new("room").long("room")))
        .get_matches_from(
            std::iter::once("uproar-test").chain(arguments.filter(|word| word.starts_with("--"))),
        );
    let code = exit_code(
        ABOUT,
        &matches,
        read,
        |_| 1,
        async |taps, shutdown| match what.split(' ').next() {
            Some("fail") => Err(anyhow::anyhow!("port in use").context("listening on 127.0.0.1:1")),
            Some("panic") => {
                tokio::spawn(async { panic!("a planted mistake") }).await?;
                Ok(())
            }
            Some("wait") => {
                println!("waiting with {taps}");
                shutdown.cancelled().await;
                Ok(())
            }
            Some("hang") => {
                println!("hanging");
                std::future::pending().await
            }
            _ => Ok(()),
        },
    );
    std::process::exit(code.into());
}

fn start(what: &str, variables: &[(&str, &str)]) -> Child {
    Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "service::main::tests::child", "--nocapture"])
        .env(DO, what)
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Exit code, standard output and standard error.
fn outcome(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Reads the child's output up to a line that contains `text`.
fn wait_for(child: &mut Child, text: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap());
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(
            lines.read_line(&mut line).unwrap() > 0,
            "the child ended early"
        );
    }
}

fn send(child: &Child, signal: &str) {
    let status = Process::new("kill")
        .args(["-s", signal, &child.id().to_string()])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn an_end_without_error_is_zero() {
    let (code, _, log) = outcome(start("end", &[]));
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("starting") && log.contains("ended"), "{log}");
}

#[test]
fn an_error_is_logged_with_its_causes() {
    let (code, _, log) = outcome(start("fail", &[]));
    assert_eq!(code, Some(1));
    assert!(
        log.contains("listening on 127.0.0.1:1: port in use"),
        "{log}"
    );
    let (_, _, log) = outcome(start("fail", &[("UPROAR_LOG__FORMAT", "json")]));
    let last: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["level"], &last["service"]),
        (&"ERROR".into(), &"uproar-test".into())
    );
}

#[test]
fn a_panic_in_a_task_ends_the_process() {
    let (code, _, log) = outcome(start("panic", &[]));
    assert_eq!(code, Some(101));
    assert!(
        log.contains("a planted mistake") && log.contains("tests.rs"),
        "{log}"
    );
}

#[test]
fn wrong_settings_are_all_told() {
    let wrong = [
        ("UPROAR_GATEWAY__TAPS", "11"),
        ("UPROAR_LOG__LEVEL", "loud"),
    ];
    let (code, _, log) = outcome(start("end", &wrong));
    assert_eq!(code, Some(78));
    assert!(
        log.contains("gateway.taps = \"11\" (from UPROAR_GATEWAY__TAPS): should be"),
        "{log}"
    );
    assert!(log.contains("log.level = loud"), "{log}");
}

#[test]
fn settings_are_checked_and_printed() {
    let (code, out, _) = outcome(start("end --check-config", &[]));
    assert!(
        code == Some(0) && out.contains("the settings are right"),
        "{out}"
    );
    let (code, out, log) = outcome(start(
        "end --print-config",
        &[("UPROAR_GATEWAY__TAPS", "7")],
    ));
    assert!(
        code == Some(0) && out.contains("[gateway]\n# how many taps") && out.contains("taps = 7"),
        "{out}"
    );
    assert!(!log.contains("starting"));
    let (code, out, _) = outcome(start(
        "end --print-config",
        &[("UPROAR_GATEWAY__TAPS", "70")],
    ));
    assert!(code == Some(78) && out.contains("taps = 5"), "{out}");
    let (code, out, _) = outcome(start(
        "end --print-config=markdown",
        &[("UPROAR_GATEWAY__TAPS", "70")],
    ));
    assert!(
        code == Some(0) && out.contains("| `gateway.taps` | `UPROAR_GATEWAY__TAPS` | `5` |"),
        "{out}"
    );
    let (code, out, _) = outcome(start("end --help", &[]));
    assert!(
        code == Some(0) && out.contains("--config <FILE>") && out.contains("Examples:"),
        "{out}"
    );
    let (code, out, _) = outcome(start("end --version", &[]));
    assert!(
        code == Some(0) && out.contains(concat!("uproar-test ", env!("CARGO_PKG_VERSION"))),
        "{out}"
    );
}

#[test]
fn a_signal_shuts_down() {
    for signal in ["TERM", "INT"] {
        let mut child = start("wait", &[("UPROAR_GATEWAY__TAPS", "9")]);
        wait_for(&mut child, "waiting with 9");
        send(&child, signal);
        let (code, _, log) = outcome(child);
        assert_eq!(code, Some(0));
        assert!(log.contains("shutting down"), "{log}");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut child = start("hang", &[]);
    wait_for(&mut child, "hanging");
    send(&child, "TERM");
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("shutting down") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0);
    }
    send(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("ending at once"), "{rest}");
}

#[test]
fn commands_can_be_added_and_take_the_same_options() {
    let command =
        command(ABOUT).subcommand(Command::new("export").arg(Arg::new("room").long("room")));
    let matches = command.get_matches_from([
        "uproar-test",
        "export",
        "--room",
        "PARTY7",
        "--config",
        "mine.toml",
    ]);
    let (name, export) = matches.subcommand().unwrap();
    assert_eq!(
        (name, export.get_one::<String>("room").unwrap().as_str()),
        ("export", "PARTY7")
    );
    assert_eq!(
        matches.get_one::<PathBuf>("config"),
        Some(&PathBuf::from("mine.toml"))
    );
}

#[test]
fn settings_from_a_text() {
    assert_eq!(
        settings_from_toml("[gateway]\ntaps = 3\n[log]\nlevel = 'debug'", read),
        Ok(3)
    );
    assert!(settings_from_toml("[gateway]\ntaps = 0", read).is_err());
}
