//! The rig's folder, and the janitor that removes it when nobody else can.

use anyhow::Context;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Waits for the end of its standard input, which comes when the rig's process ends, also by kill -9. Then ends
/// whatever still runs in the folder (children of children that the death signal did not reach) and removes it.
const JANITOR: &str = r#"
trap '' INT TERM HUP QUIT
read -r _
tries=0
while [ -e "$1" ] && [ $tries -lt 100 ]; do
    for process in /proc/[0-9]*; do
        case $(readlink "$process/cwd" 2>/dev/null) in
            "$1" | "$1"/*) kill -9 "${process#/proc/}" 2>/dev/null ;;
        esac
    done
    rm -rf "$1" 2>/dev/null && break
    tries=$((tries + 1))
    sleep 0.1
done
"#;

/// A temporary folder that is gone when the process is.
#[derive(Debug)]
pub(crate) struct Folder {
    /// An option only so that it can be removed before the janitor is let go.
    directory: Option<TempDir>,
    path: std::path::PathBuf,
    janitor: Child,
}

impl Folder {
    pub(crate) fn create() -> anyhow::Result<Folder> {
        let mut builder = tempfile::Builder::new();
        let directory = builder
            .prefix("uproar-rig-")
            .tempdir()
            .context("no temporary folder")?;
        // Postgres runs as a user of its own when we are root, and has to get through to its folder.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o711))?;
        let path = directory.path().canonicalize()?;
        let janitor = Command::new("sh")
            .args(["-c", JANITOR, "uproar-rig-janitor"])
            .arg(&path)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C goes to the whole foreground group; the janitor must outlive it.
            .process_group(0)
            .spawn()
            .context("sh cannot be run")?;
        Ok(Folder {
            directory: Some(directory),
            path,
            janitor,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.directory.take());
        // Closes its standard input: with the folder gone it ends at once, else it tries for itself.
        let _ = self.janitor.wait();
    }
}

/// The last lines of a log, for error messages.
pub(crate) fn tail(log: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(mut file) = std::fs::File::open(log) {
        let _ = file.read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
