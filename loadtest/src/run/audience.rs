//! The head counts that the servers give to hosts: how many people they say are in each room.

use crate::api::MadeRoom;
use crate::phone::socket::{Event, Socket};
use shared::protocol::{Join, Role, ServerFrame};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinSet;

/// Rooms whose hosts listen: enough to see whether head counts are right, few enough to cost nothing.
const HOSTS_MAX: usize = 50;

/// Hosts of some rooms.
#[derive(Debug)]
pub struct Hosts {
    /// What each has heard last.
    people: Vec<Arc<AtomicU64>>,
    /// Ended when dropped.
    _listening: JoinSet<()>,
}

impl Hosts {
    /// Joins as host of the first rooms. A connection that breaks is not opened again: its count then stays behind,
    /// which the cross-check shows.
    pub fn join(gateway: SocketAddr, rooms: &[MadeRoom]) -> Hosts {
        let mut listening = JoinSet::new();
        let mut people = Vec::new();
        for room in rooms.iter().take(HOSTS_MAX) {
            let heard = Arc::new(AtomicU64::new(0));
            people.push(Arc::clone(&heard));
            let room = room.clone();
            listening.spawn(async move {
                if let Err(error) = listen(gateway, &room, &heard).await {
                    tracing::debug!(%error, room = %room.code, "a host lost its connection");
                }
            });
        }
        Hosts {
            people,
            _listening: listening,
        }
    }

    /// How many people are in these rooms, as the servers said last; and how many rooms that is.
    pub fn people(&self) -> (u64, usize) {
        let heard = self
            .people
            .iter()
            .map(|people| people.load(Ordering::Relaxed));
        (heard.sum(), self.people.len())
    }
}

async fn listen(gateway: SocketAddr, room: &MadeRoom, people: &AtomicU64) -> anyhow::Result<()> {
    let mut socket = Socket::open(gateway, &room.code).await?;
    socket
        .join(&Join {
            client: format!("{:032x}", rand::random::<u128>()),
            page: format!("{:08x}", rand::random::<u32>()),
            role: Role::Host,
            token: Some(room.host_token.clone()),
        })
        .await?;
    loop {
        match socket.next().await {
            Event::Frame(ServerFrame::Audience(audience)) => {
                people.store(u64::from(audience.people), Ordering::Relaxed);
            }
            Event::Frame(_) => {}
            Event::Ping(payload) => socket.pong(payload).await?,
            Event::Closed(code) => anyhow::bail!("closed: {code:?}"),
        }
    }
}
