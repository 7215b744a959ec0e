//! `uproar-loadtest compare`: what changed between runs, noise taken into account.

use super::WrongUse;
use crate::report::compare::{ReportFile, compare};
use crate::report::output::{self, OutputFile};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  uproar-loadtest compare before.json after.json
  uproar-loadtest compare --before a1.json a2.json a3.json --after b1.json b2.json b3.json

Files are what --json wrote, or the standard output of run, floor, giant-room or backlog.

With one report a side, noise is what each report shows of itself (how its percentiles and its seconds
scatter) and what repeated runs have been seen to differ by. With several a side, it is the spread
between them: three a side is a good number.

Prints a Markdown table, for a pull request as it is, and one JSON object as the last line. The exit
code is 0 whatever changed; 2 wrong use.";

/// Compares two runs, or two sets of repeated runs: a Markdown table of what changed by more than noise.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The report before and the report after
    #[arg(value_name = "FILE", num_args = 2, required_unless_present = "before", conflicts_with_all = ["before", "after"])]
    files: Vec<PathBuf>,
    /// Reports of repeated runs before
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after")]
    before: Vec<PathBuf>,
    /// Reports of repeated runs after
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before")]
    after: Vec<PathBuf>,
    /// Writes the comparison as JSON, the same as the last line of standard output
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
}

/// Runs the command.
///
/// # Errors
/// A file is not what it should be; all such files are named.
pub fn run(arguments: &Arguments) -> anyhow::Result<u8> {
    let (before, after) = match arguments.files.as_slice() {
        [before, after] => (std::slice::from_ref(before), std::slice::from_ref(after)),
        _ => (arguments.before.as_slice(), arguments.after.as_slice()),
    };
    let (before, after) = read(before, after)?;
    let comparison = compare(&before, &after).map_err(WrongUse::from)?;
    for warning in &comparison.warnings {
        eprintln!("careful: {warning}");
    }
    println!("{}", comparison.markdown());
    output::finish(&comparison, arguments.json.as_ref())?;
    Ok(0)
}

/// Both sides, or everything that is wrong with any file.
fn read(
    before: &[PathBuf],
    after: &[PathBuf],
) -> Result<(Vec<ReportFile>, Vec<ReportFile>), WrongUse> {
    let mut wrong = Vec::new();
    let mut side = |paths: &[PathBuf]| {
        let mut files = Vec::new();
        for path in paths {
            match ReportFile::read(path) {
                Ok(file) => files.push(file),
                Err(error) => wrong.push(error.to_string()),
            }
        }
        files
    };
    let sides = (side(before), side(after));
    if wrong.is_empty() {
        return Ok(sides);
    }
    Err(WrongUse::new(&wrong.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn line(words: &[&str]) -> Result<Arguments, clap::Error> {
        Line::try_parse_from(["compare"].iter().chain(words)).map(|line| line.arguments)
    }

    #[test]
    fn two_files_or_two_sides() {
        assert_eq!(line(&["a", "b"]).unwrap().files.len(), 2);
        let sides = line(&["--before", "a", "b", "--after", "c"]).unwrap();
        assert_eq!((sides.before.len(), sides.after.len()), (2, 1));
        for wrong in [
            &[][..],
            &["a"],
            &["a", "b", "c"],
            &["--before", "a"],
            &["--after", "a"],
            &["a", "b", "--before", "c", "--after", "d"],
        ] {
            assert!(line(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn all_wrong_files_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join("foreign.json");
        std::fs::write(&foreign, "{}").unwrap();
        let missing = folder.path().join("missing.json");
        let error = read(&[foreign], &[missing]).unwrap_err().to_string();
        assert!(
            error.contains("foreign.json is JSON, but no result"),
            "{error}"
        );
        assert!(error.contains("missing.json cannot be read"), "{error}");
    }
}
