//! An agent as its coordinator sees it.

use super::VERSION;
use super::wire::{Answer, Order, proof, receive, send};
use crate::swarm::assignment::Assignment;
use crate::swarm::harvest::{Harvest, Snapshot};
use anyhow::{Context, bail};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Exchanges by which the clocks are compared: the quickest one counts, whose error is at most half its time.
const CLOCK_EXCHANGES: usize = 21;

/// An agent that does not answer within this time is gone. A harvest may take that long on a slow network.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// A connection to an agent.
#[derive(Debug)]
pub struct Remote {
    address: String,
    stream: TcpStream,
}

/// How two clocks stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// The agent's clock less ours, microseconds; ours counts from the given epoch.
    pub offset_us: i64,
    /// The offset is wrong by at most this.
    pub error_us: u64,
}

impl Remote {
    /// Connects and says who it is. `address` is `host:port`.
    ///
    /// # Errors
    /// Nobody listens there, it is of another version, or the key is wrong.
    pub async fn connect(address: &str, key: &str) -> anyhow::Result<Remote> {
        let connecting = async {
            let mut stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let Some(Answer::Nonce(nonce)) = receive(&mut stream).await? else {
                bail!("what listens there is no agent");
            };
            let mut remote = Remote {
                address: address.to_owned(),
                stream,
            };
            let version = VERSION.to_owned();
            let proof = proof(key, &nonce);
            remote.order(&Order::Hello { version, proof }).await?;
            Ok(remote)
        };
        let connected = tokio::time::timeout(Duration::from_secs(10), connecting).await;
        connected
            .unwrap_or_else(|_| bail!("no answer within 10 s"))
            .with_context(|| format!("the agent {address} cannot be used"))
    }

    /// Compares its clock with ours.
    ///
    /// # Errors
    /// It is gone.
    pub async fn clock(&mut self, epoch: Instant) -> anyhow::Result<ClockOffset> {
        let mut best: Option<ClockOffset> = None;
        for _ in 0..CLOCK_EXCHANGES {
            let sent = epoch.elapsed();
            let Answer::Clock(theirs) = self.order(&Order::Clock).await? else {
                bail!("the agent {} does not tell its clock", self.address);
            };
            let received = epoch.elapsed();
            let middle = i64::try_from((sent + received).as_micros() / 2)?;
            let error_us = u64::try_from((received - sent).as_micros())?.div_ceil(2);
            if best.is_none_or(|best| error_us < best.error_us) {
                let offset_us = i64::try_from(theirs)? - middle;
                best = Some(ClockOffset {
                    offset_us,
                    error_us,
                });
            }
        }
        best.context("no exchange was made")
    }

    /// Has it play; `zero_us` by its clock.
    ///
    /// # Errors
    /// It cannot, or is gone.
    pub async fn start(&mut self, assignment: Assignment, zero_us: u64) -> anyhow::Result<()> {
        let assignment = Box::new(assignment);
        self.order(&Order::Start {
            assignment,
            zero_us,
        })
        .await?;
        Ok(())
    }

    /// Its counters.
    ///
    /// # Errors
    /// It is gone.
    pub async fn snapshot(&mut self) -> anyhow::Result<Snapshot> {
        match self.order(&Order::Snapshot).await? {
            Answer::Snapshot(snapshot) => Ok(snapshot),
            _ => bail!("the agent {} does not tell its counters", self.address),
        }
    }

    /// Nobody taps any more.
    ///
    /// # Errors
    /// It is gone.
    pub async fn stop_tapping(&mut self) -> anyhow::Result<()> {
        self.order(&Order::StopTapping).await?;
        Ok(())
    }

    /// Everybody leaves; what they saw.
    ///
    /// # Errors
    /// It is gone.
    pub async fn finish(&mut self) -> anyhow::Result<Harvest> {
        match self.order(&Order::Finish).await? {
            Answer::Harvest(harvest) => Ok(*harvest),
            _ => bail!("the agent {} brings no harvest", self.address),
        }
    }

    async fn order(&mut self, order: &Order) -> anyhow::Result<Answer> {
        let exchange = async {
            send(&mut self.stream, order).await?;
            receive(&mut self.stream).await
        };
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, exchange).await;
        let answer = answer
            .unwrap_or_else(|_| bail!("no answer within {ANSWER_TIMEOUT:?}"))
            .with_context(|| format!("the agent {} is lost", self.address))?;
        match answer {
            Some(Answer::Failed(why)) => bail!("the agent {}: {why}", self.address),
            Some(answer) => Ok(answer),
            None => bail!("the agent {} hung up", self.address),
        }
    }
}
