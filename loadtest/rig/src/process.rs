//! Child processes that die with their parent.
//!
//! The kernel sends the death signal when the *thread* that started the child ends. Tests run on threads of their
//! own, so all children are started by one thread that lives as long as the process.

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What is to be run.
pub(crate) struct Program<'a> {
    /// For messages.
    pub(crate) name: &'a str,
    /// Its path, or its name in PATH.
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    /// Its working directory lies in the rig's folder: by that the janitor knows it.
    pub(crate) directory: &'a Path,
    /// Takes its standard output and error.
    pub(crate) log: PathBuf,
    /// Runs as this user (only when we are root).
    pub(crate) user: Option<&'a str>,
}

impl Program<'_> {
    fn command(&self) -> anyhow::Result<Command> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(user) = self.user {
            command.args(["--reuid", user, "--regid", user, "--init-groups"]);
        }
        command.arg("--").arg(&self.program).args(&self.arguments);
        // Settings of whoever runs the tests must not reach the services under test.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("UPROAR_")) {
            command.env_remove(name);
        }
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C goes to the whole foreground group; the rig decides itself what ends when.
            .process_group(0);
        Ok(command)
    }

    /// Starts it.
    pub(crate) fn start(self) -> anyhow::Result<Process> {
        let child = spawn(self.command()?)
            .with_context(|| format!("setpriv (util-linux) cannot start {}", self.name))?;
        let name = self.name.to_owned();
        Ok(Process {
            name,
            pid: child.id(),
            log: self.log,
            child: Mutex::new(child),
        })
    }

    /// Runs it to its end.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let process = self.start()?;
        let status = process.wait(Duration::from_secs(60)).await?;
        if !status.success() {
            bail!(
                "{} failed ({status}):\n{}",
                process.name,
                crate::folder::tail(&process.log)
            );
        }
        Ok(())
    }
}

type Job = (Command, SyncSender<io::Result<Child>>);

fn spawn(command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<SyncSender<Job>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, jobs) = sync_channel::<Job>(16);
        std::thread::spawn(move || {
            for (mut command, answer) in jobs {
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, started) = sync_channel(1);
    let gone = |_| io::Error::other("the thread that starts children is gone");
    starter.send((command, answer)).map_err(|_| gone(()))?;
    started.recv().map_err(|_| gone(()))?
}

/// A running child; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: u32,
    log: PathBuf,
    child: Mutex<Child>,
}

impl Process {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file with what it wrote.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        self.exit_status().is_none()
    }

    /// How it ended, if it has.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    /// Sends a signal, unless it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let mut child = self.child();
        // Asked under the lock: an ended child that was waited for may have lent its number to a stranger.
        if let (Ok(None), Ok(pid)) = (child.try_wait(), i32::try_from(self.pid)) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It still runs after `at_most`.
    pub async fn wait(&self, at_most: Duration) -> anyhow::Result<ExitStatus> {
        let deadline = Instant::now() + at_most;
        loop {
            if let Some(status) = self.exit_status() {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!(
                    "{} (process {}) still runs after {at_most:?}",
                    self.name,
                    self.pid
                );
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// kill -9, and waits until it is gone.
    pub fn kill9(&self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}
