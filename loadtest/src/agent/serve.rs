//! The agent: one coordinator at a time, one run per connection.

use super::VERSION;
use super::wire::{Answer, Order, is_proof, receive, send};
use crate::swarm::Swarm;
use anyhow::{Context, bail};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// The key among processes of one machine when none was given: the agent then listens on loopback only.
pub const LOCAL: &str = "local";

/// The key that agents and coordinators use when this one was given, or none, or an empty one.
pub fn key_or_local(given: Option<String>) -> String {
    let given = given.filter(|key| !key.is_empty());
    given.unwrap_or_else(|| LOCAL.to_owned())
}

/// An agent that is ready for coordinators.
#[derive(Debug)]
pub struct Agent {
    listener: TcpListener,
    key: String,
    epoch: Instant,
}

impl Agent {
    /// Listens. Whoever knows the key can have this machine send load anywhere; without one, only loopback is
    /// listened on.
    ///
    /// # Errors
    /// The port cannot be had, or the address needs a key.
    pub async fn bind(address: SocketAddr, key: Option<String>) -> anyhow::Result<Agent> {
        if key.as_deref().is_none_or(str::is_empty) && !address.ip().is_loopback() {
            bail!(
                "an agent on {address} would send load wherever anybody tells it to: set UPROAR_AGENT_KEY to a secret, \
                 here and for `run`, or listen on 127.0.0.1"
            );
        }
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}: choose another --listen"))?;
        Ok(Agent {
            listener,
            key: key_or_local(key),
            epoch: Instant::now(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves coordinators, one after another; only one if `once`. What goes wrong with one is told to `progress`.
    ///
    /// # Errors
    /// It cannot listen any more.
    pub async fn serve(&self, once: bool, progress: impl Fn(&str)) -> anyhow::Result<()> {
        loop {
            let (stream, from) = self.listener.accept().await?;
            progress(&format!("coordinator {from}"));
            match self.session(stream).await {
                Ok(()) if once => return Ok(()),
                Ok(()) => progress("the run is over; waiting for the next"),
                Err(error) => progress(&format!("the run ended: {error:#}; waiting for the next")),
            }
        }
    }

    async fn session(&self, mut stream: TcpStream) -> anyhow::Result<()> {
        stream.set_nodelay(true)?;
        let nonce: [u8; 16] = rand::random();
        send(&mut stream, &Answer::Nonce(nonce)).await?;
        let hello = tokio::time::timeout(Duration::from_secs(10), receive(&mut stream)).await;
        let Some(Order::Hello { version, proof }) = hello.context("it said nothing")?? else {
            bail!("it did not say hello");
        };
        let refusal = if !is_proof(&self.key, &nonce, &proof) {
            Some("the key is another: set UPROAR_AGENT_KEY to the same on both sides".to_owned())
        } else if version != VERSION {
            Some(format!(
                "the agent is version {VERSION}, the coordinator {version}: use one version"
            ))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            send(&mut stream, &Answer::Failed(refusal.clone())).await?;
            bail!(refusal);
        }
        send(&mut stream, &Answer::Done).await?;
        let mut swarm = None;
        while let Some(order) = receive(&mut stream).await? {
            let answer = match self.obey(order, &mut swarm) {
                Ok(answer) => answer,
                Err(error) => Answer::Failed(format!("{error:#}")),
            };
            send(&mut stream, &answer).await?;
        }
        Ok(())
    }

    fn obey(&self, order: Order, swarm: &mut Option<Swarm>) -> anyhow::Result<Answer> {
        let running = || "no run is under way".to_owned();
        Ok(match order {
            Order::Hello { .. } => bail!("it has said hello before"),
            Order::Clock => {
                let now = self.epoch.elapsed().as_micros();
                Answer::Clock(u64::try_from(now).unwrap_or(u64::MAX))
            }
            Order::Start {
                assignment,
                zero_us,
            } => {
                let zero = self.epoch + Duration::from_micros(zero_us);
                *swarm = Some(Swarm::start(*assignment, zero)?);
                Answer::Done
            }
            Order::Snapshot => Answer::Snapshot(swarm.as_ref().with_context(running)?.snapshot()),
            Order::StopTapping => {
                swarm.as_ref().with_context(running)?.stop_tapping();
                Answer::Done
            }
            Order::Finish => {
                let harvest = swarm.take().with_context(running)?.finish();
                Answer::Harvest(Box::new(harvest))
            }
        })
    }
}
