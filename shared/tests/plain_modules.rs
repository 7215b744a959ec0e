//! The rules of counting must be testable without a network and without a clock. That stays so only if the modules that
//! hold them cannot reach either: this test reads their source.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules that are plain logic.
const PLAIN: [&str; 5] = ["room", "protocol", "shards", "counting", "ticks"];
/// What they may not name.
const FOREIGN: [&str; 10] = [
    "tokio",
    "tokio_util",
    "redis",
    "deadpool_redis",
    "hyper",
    "cluster",
    "service",
    "SystemTime",
    "Instant",
    "TcpStream",
];

fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries
        .flat_map(|entry| {
            sources(
                &entry
                    .expect("the sources do not change while tests run")
                    .path(),
            )
        })
        .collect()
}

/// The words of a source file's code: without comments and without texts.
fn words(source: &str) -> Vec<String> {
    source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(|line| line.split('"').step_by(2))
        .flat_map(|code| code.split(|symbol: char| !symbol.is_alphanumeric() && symbol != '_'))
        .map(str::to_owned)
        .collect()
}

fn foreign_words(source: &str) -> Vec<String> {
    words(source)
        .into_iter()
        .filter(|word| FOREIGN.contains(&word.as_str()))
        .collect()
}

#[test]
fn plain_modules_reach_neither_network_nor_clock() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut read = 0;
    for module in PLAIN {
        let file = root.join(format!("{module}.rs"));
        let path = if file.exists() {
            file
        } else {
            root.join(module)
        };
        for source in sources(&path)
            .iter()
            .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        {
            let found = foreign_words(&fs::read_to_string(source).unwrap());
            assert!(found.is_empty(), "{} names {found:?}", source.display());
            read += 1;
        }
    }
    assert!(read > PLAIN.len(), "the sources were found");
}

#[test]
fn a_foreign_import_is_found() {
    assert_eq!(foreign_words("use tokio::sync::Mutex; // redis"), ["tokio"]);
    assert_eq!(
        foreign_words("use crate::cluster::Cluster;\nlet clock = Instant::now();"),
        ["cluster", "Instant"]
    );
    assert!(foreign_words("/// As Redis Cluster: redis, tokio.\nlet text = \"redis\";").is_empty());
}
