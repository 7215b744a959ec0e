//! The bare server's process, as seen by whoever measures it: see `server.rs`.

use super::connection::Service;
use super::phones::Phones;
use super::process::Measured;
use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The command of this program that is the bare server.
pub const COMMAND: &str = "floor-server";

/// Connections opened to it at a time.
const STEP: usize = 256;
/// How long it may take to accept them on a busy machine.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(20);

/// A running bare server; killed when dropped.
#[derive(Debug)]
pub(super) struct Bare {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Bare {
    /// Starts it. Call from a thread that lives as long as it: it dies with that.
    ///
    /// # Errors
    /// It did not start.
    pub(super) fn start() -> anyhow::Result<Bare> {
        let program = std::env::current_exe().context("this program does not know where it is")?;
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C goes to the whole foreground group; whoever measures decides what ends when.
            .process_group(0)
            .spawn()
            .context("setpriv (util-linux) cannot start the bare server")?;
        let orders = child.stdin.take().context("the bare server has no input")?;
        let answers = child.stdout.take();
        let mut bare = Bare {
            child,
            orders,
            answers: BufReader::new(answers.context("the bare server has no output")?),
            address: ([127, 0, 0, 1], 0).into(),
        };
        bare.address = bare.answer()?.parse()?;
        Ok(bare)
    }

    pub(super) fn process(&self) -> Measured {
        Measured::new(self.child.id())
    }

    /// Opens so many connections to it; which they are.
    ///
    /// # Errors
    /// It does not accept them; [`super::Interrupted`].
    pub(super) fn connect(
        &mut self,
        phones: &mut Phones,
        count: usize,
    ) -> anyhow::Result<Range<usize>> {
        let service = Service::Bare(self.address);
        let first = phones.connect(&service, 0, None)?.start;
        let mut opened = 0;
        while opened < count {
            // No more than its backlog holds: the system says that a connection is there before it is accepted.
            let step = STEP.min(count - opened);
            phones.connect(&service, step, None)?;
            opened += step;
            self.wait_for_sockets(phones, opened)?;
        }
        Ok(first..first + count)
    }

    fn wait_for_sockets(&mut self, phones: &mut Phones, count: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + ACCEPT_TIMEOUT;
        loop {
            let accepted: usize = self.ask("sockets")?.parse()?;
            if accepted == count {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the bare server has {accepted} sockets instead of {count}"
            );
            phones.linger(Duration::from_millis(1))?;
        }
    }

    /// Has it send this text frame to each socket from the next tick on.
    pub(super) fn send(&mut self, text: &str) -> anyhow::Result<()> {
        self.order(&format!("send {text}"))
    }

    /// Ends that.
    ///
    /// # Errors
    /// It could not send all: its sockets were full.
    pub(super) fn rest(&mut self) -> anyhow::Result<()> {
        let blocked = self.ask("rest")?;
        ensure!(
            blocked == "0",
            "{blocked} frames of the bare server did not fit into their sockets"
        );
        Ok(())
    }

    /// How many frames it has read since it was asked last.
    pub(super) fn taps(&mut self) -> anyhow::Result<u64> {
        Ok(self.ask("taps")?.parse()?)
    }

    fn ask(&mut self, order: &str) -> anyhow::Result<String> {
        self.order(order)?;
        self.answer()
    }

    fn order(&mut self, order: &str) -> anyhow::Result<()> {
        writeln!(self.orders, "{order}")
            .and_then(|()| self.orders.flush())
            .context("the bare server is gone")
    }

    fn answer(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line)?;
        ensure!(read > 0, "the bare server is gone");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // Works on a stopped process, too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
