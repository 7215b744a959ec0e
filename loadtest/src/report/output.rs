//! Where a command's result goes: the last line of standard output, and files.
//!
//! A long run must not end with "no such folder": an [`OutputFile`] is tried when the command line is read.

use anyhow::Context;
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A file that can be written; as the type of a command-line argument, it is tried before anything starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile(PathBuf);

impl OutputFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a text in place of what the file had.
    ///
    /// # Errors
    /// Something has happened to the folder meanwhile, or the disk is full.
    pub fn write(&self, text: &str) -> anyhow::Result<()> {
        fs::write(&self.0, text).with_context(|| format!("{} cannot be written", self.0.display()))
    }
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Nothing there to write into.
    #[error("there is no folder {folder}; make it first: mkdir -p {folder}")]
    NoFolder {
        /// The folder.
        folder: String,
    },
    /// A folder has that name.
    #[error("{path} is a folder; give the name of a file")]
    Folder {
        /// The path.
        path: String,
    },
    /// Anything else.
    #[error("{path} cannot be written: {source}")]
    Unwritable {
        /// The path.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

impl FromStr for OutputFile {
    type Err = OutputError;

    fn from_str(typed: &str) -> Result<OutputFile, OutputError> {
        let path = PathBuf::from(typed);
        let shown = path.display().to_string();
        if path.is_dir() {
            return Err(OutputError::Folder { path: shown });
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            let folder = folder.display().to_string();
            return Err(OutputError::NoFolder { folder });
        }
        let is_new = !path.exists();
        // Appending leaves what an earlier run wrote there, in case this one does not get to its end.
        let opened = OpenOptions::new().append(true).create(true).open(&path);
        opened.map_err(|source| OutputError::Unwritable {
            path: shown,
            source,
        })?;
        if is_new {
            // An empty file would look like a result; that it goes is a courtesy.
            let _ = fs::remove_file(&path);
        }
        Ok(OutputFile(path))
    }
}

/// Ends a command: one JSON object as the last line of standard output, and the same in a file if one is wanted.
///
/// # Errors
/// The file cannot be written, or nobody reads standard output any more.
pub fn finish(result: &impl Serialize, json: Option<&OutputFile>) -> anyhow::Result<()> {
    let line = format!("{}\n", serde_json::to_string(result)?);
    // The line first: it is there even if the disk is full.
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())
        .and_then(|()| out.flush())
        .context("standard output cannot be written")?;
    json.map_or(Ok(()), |file| file.write(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_tried_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let file: OutputFile = path.to_str().unwrap().parse().unwrap();
        assert!(!path.exists(), "an empty file would look like a result");
        file.write("{}\n").unwrap();
        let again: OutputFile = path.to_str().unwrap().parse().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n");
        again.write("{\"a\":1}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n");
    }

    #[test]
    fn what_cannot_be_written_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("reports/run.json");
        let error = missing.to_str().unwrap().parse::<OutputFile>().unwrap_err();
        assert!(matches!(error, OutputError::NoFolder { .. }));
        assert!(error.to_string().contains("mkdir -p"), "{error}");

        let error = folder
            .path()
            .to_str()
            .unwrap()
            .parse::<OutputFile>()
            .unwrap_err();
        assert!(matches!(error, OutputError::Folder { .. }));

        // Nobody, root included, makes files there.
        let error = "/proc/run.json".parse::<OutputFile>().unwrap_err();
        assert!(matches!(error, OutputError::Unwritable { .. }), "{error}");
    }
}
