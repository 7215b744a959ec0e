//! Tests of the settings reader.

use super::*;

#[derive(Debug)]
struct Read {
    listen: SocketAddr,
    flush: Duration,
    drain: Duration,
    origins: Vec<String>,
    admin: Option<Secret>,
    keys: BTreeMap<String, Secret>,
    telling: bool,
    title: Option<String>,
    taps: u64,
}

fn read(reader: &mut Reader) -> Read {
    Read {
        listen: reader.address("gateway.listen", "0.0.0.0:8080", "where phones connect"),
        flush: reader.duration(
            "gateway.flush_interval_ms",
            25,
            5..=1_000,
            "how often taps are appended",
        ),
        drain: reader.duration(
            "gateway.drain_seconds",
            30,
            0..=600,
            "how long a drain takes",
        ),
        origins: reader.list("gateway.origins", &[], "pages that may connect"),
        admin: reader.secret("gateway.admin_key", "who may make rooms"),
        keys: reader.secrets(
            "gateway.host_token_keys",
            "what host tokens are signed with",
        ),
        telling: reader.switch("gateway.telling", false, "whether to tell"),
        title: reader.optional_text("gateway.title", "a title"),
        taps: reader.number(
            "gateway.open_taps_max",
            10_000,
            1..=1_000_000,
            "taps waiting",
        ),
    }
}

fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn load(toml: &str, variables: &[(&str, &str)]) -> Result<(Read, Shown), Vec<String>> {
    let mut reader = Reader::from_toml(toml, environment(variables)).map_err(|error| error.0)?;
    let read = read(&mut reader);
    Ok((read, reader.finish().map_err(|error| error.0)?))
}

#[test]
fn defaults_hold_where_nothing_is_set() {
    let (read, _) = load("", &[]).unwrap();
    assert_eq!(read.listen.to_string(), "0.0.0.0:8080");
    assert_eq!(
        (read.flush, read.drain),
        (Duration::from_millis(25), Duration::from_secs(30))
    );
    assert!(read.origins.is_empty() && read.admin.is_none() && read.keys.is_empty());
    assert_eq!((read.telling, read.title, read.taps), (false, None, 10_000));
}

#[test]
fn the_environment_goes_over_the_file() {
    let toml = r#"
        [gateway]
        listen = "127.0.0.1:1"
        flush_interval_ms = 40
        origins = ["https://a.example", "https://b.example"]
        telling = true
        title = "of the file"
        [gateway.host_token_keys]
        k1 = "first"
        [aggregator]
        of_another = "service"
    "#;
    let (read, _) = load(
        toml,
        &[
            ("UPROAR_GATEWAY__FLUSH_INTERVAL_MS", "50"),
            ("UPROAR_GATEWAY__HOST_TOKEN_KEYS__K2", "second"),
            ("UPROAR_GATEWAY__ADMIN_KEY", "0123"),
            ("UPROAR_GATEWAY__OPEN_TAPS_MAX", "20_000"),
            ("UPROAR_GATEWAY__TITLE", ""),
            ("PATH", "/bin"),
        ],
    )
    .unwrap();
    assert_eq!(
        (read.listen.port(), read.flush, read.telling),
        (1, Duration::from_millis(50), true)
    );
    assert_eq!(read.origins, ["https://a.example", "https://b.example"]);
    assert_eq!(read.keys.keys().collect::<Vec<_>>(), ["k1", "k2"]);
    assert_eq!(read.keys["k2"].reveal(), "second");
    assert_eq!(
        read.admin.unwrap().reveal(),
        "0123",
        "a secret of digits is a text"
    );
    assert_eq!((read.taps, read.title), (20_000, None));
    let (read, _) = load(
        "",
        &[(
            "UPROAR_GATEWAY__ORIGINS",
            " https://a.example ,,https://b.example",
        )],
    )
    .unwrap();
    assert_eq!(read.origins, ["https://a.example", "https://b.example"]);
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let wrong = load(
        r#"
        [gateway]
        listen = "8080"
        flush_interval_ms = 2
        drain_seconds = -1
        origins = [1]
        admin_key = 12345
        telling = "maybe"
        host_token_keys = "secret-without-id"
        "#,
        &[("UPROAR_GATEWAY__OPEN_TAPS_MAX", "many")],
    )
    .unwrap_err();
    assert_eq!(
        wrong,
        [
            "gateway.listen = \"8080\" (from the file): should be an address with a port, such as 0.0.0.0:8080 or [::]:8080",
            "gateway.flush_interval_ms = 2 (from the file): should be a whole number from 5 to 1000",
            "gateway.drain_seconds = -1 (from the file): should be a whole number from 0 to 600",
            "gateway.origins = [1] (from the file): should be a list of texts",
            "gateway.admin_key = *** (from the file): should be a text",
            "gateway.host_token_keys = *** (from the file): should be a table of texts by id (in the environment a variable for each, …__ID)",
            "gateway.telling = \"maybe\" (from the file): should be true or false",
            "gateway.open_taps_max = \"many\" (from UPROAR_GATEWAY__OPEN_TAPS_MAX): should be a whole number from 1 to 1000000",
        ]
    );
}

#[test]
fn unknown_names_are_told_with_what_was_meant() {
    let wrong = load(
        "[gateway]\nflush_interval = 25\nadmin_keys = 'hidden'\n[gatway]\nlisten = ''\n[persister]\nanything = 1\n",
        &[
            ("UPROAR_GATEWAY__ORIGIN", "hidden"),
            ("UPROAR_GATEWAY_LISTEN", "hidden"),
            ("UPROAR_DEMO", "somebody else's"),
        ],
    )
    .unwrap_err();
    assert_eq!(
        wrong,
        [
            "UPROAR_GATEWAY_LISTEN sets nothing; did you mean UPROAR_GATEWAY__LISTEN?",
            "gateway.admin_keys (from the file) is unknown; did you mean gateway.admin_key?",
            "gateway.flush_interval (from the file) is unknown; did you mean gateway.flush_interval_ms?",
            "gateway.origin (from UPROAR_GATEWAY__ORIGIN) is unknown; did you mean gateway.origins?",
            "section gatway is unknown; did you mean gateway?",
        ]
    );
}

#[test]
fn a_section_that_is_no_table_is_told() {
    let wrong = load("gateway = 5", &[]).unwrap_err();
    assert_eq!(
        wrong,
        ["gateway is a section: should be a table of settings"]
    );
}

#[test]
fn what_only_the_reader_can_see() {
    let mut reader = Reader::from_toml("[gateway]\nadmin_key = 'short'\n", []).unwrap();
    read(&mut reader);
    reader.wrong("gateway.admin_key", "short", "at least 16 bytes");
    reader.wrong("gateway.host_token_keys", "", "at least one key");
    reader.wrong("gateway.open_taps_max", "10000", "less than that");
    assert_eq!(
        reader.finish().unwrap_err().to_string(),
        "gateway.admin_key = *** (from the file): should be at least 16 bytes\n\
         gateway.host_token_keys is missing: should be at least one key (or UPROAR_GATEWAY__HOST_TOKEN_KEYS in the environment)\n\
         gateway.open_taps_max = 10000 (from the default): should be less than that"
    );
}

#[test]
fn files_that_cannot_be_read() {
    let error = Reader::new(Some(Path::new("/nowhere/uproar.toml")), []).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("/nowhere/uproar.toml cannot be read"),
        "{error}"
    );
    let error = Reader::from_toml("[gateway\n", []).unwrap_err();
    assert!(error.to_string().contains("not a settings file"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, "[gateway]\nopen_taps_max = 0\n").unwrap();
    let mut reader = Reader::new(Some(&path), []).unwrap();
    read(&mut reader);
    let error = reader.finish().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("mine.toml): should be a whole number from 1"),
        "{error}"
    );
}

#[test]
fn what_is_shown_can_be_read_again_and_hides_secrets() {
    let toml = "[gateway]\nadmin_key = 'hidden'\nflush_interval_ms = 40\ntitle = 'a \"b\"'\n[gateway.host_token_keys]\nk1 = 'hidden'";
    let (_, shown) = load(toml, &[]).unwrap();
    let printed = shown.to_toml();
    assert!(!printed.contains("hidden"), "{printed}");
    assert!(
        printed.contains("[gateway]\n# where phones connect ("),
        "{printed}"
    );
    assert!(printed.contains("\nadmin_key = \"***\"\n"));
    assert!(printed.contains("# how often taps are appended (a whole number from 5 to 1000; default: 25)\nflush_interval_ms = 40\n"));
    let (again, shown_again) = load(&printed, &[]).unwrap();
    assert_eq!(
        (again.flush, again.title.as_deref()),
        (Duration::from_millis(40), Some("a \"b\""))
    );
    assert_eq!(shown_again.to_toml(), printed);
    let markdown = shown.to_markdown();
    assert!(markdown.contains(
        "| `gateway.flush_interval_ms` | `UPROAR_GATEWAY__FLUSH_INTERVAL_MS` | `25` | how often taps are appended"
    ));
}

#[test]
fn the_redis_section() {
    let load = |toml: &str| {
        let mut reader = Reader::from_toml(toml, []).unwrap();
        let settings = read_redis(&mut reader);
        reader.finish().map(|_| settings)
    };
    let settings = load("").unwrap();
    assert_eq!(
        (settings.shards, settings.topology_interval),
        (64, Duration::from_millis(200))
    );
    let wrong = load("[redis]\nnodes = ['nowhere']\nshards = 63\nusername = 'u'\n")
        .unwrap_err()
        .0;
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert!(load("[redis]\nnodes = []").is_err());
    assert!(load("[redis]\nnodes = ['redis://h:6379']").is_err());
    assert!(load("[redis]\nnodes = ['h:6379', '[::1]:7000']").is_ok());
}
