//! Free ports of 127.0.0.1.

use anyhow::bail;
use rand::RngExt;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use tokio::net::TcpSocket;

/// Ports handed out by this process: two servers that start at the same time must not get the same one.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// An address of 127.0.0.1 that nobody listens on, for a server started right afterwards.
///
/// The port lies below the range from which the kernel takes the ports of outgoing connections: a server that
/// is killed and started again must find its port free, and whoever keeps trying to reach it in the meantime must
/// not be connected to itself.
///
/// # Errors
/// No port was free in a thousand tries.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    let below = first_outgoing_port();
    let mut rng = rand::rng();
    for _ in 0..1000 {
        let port = rng.random_range(10_000.min(below - 1)..below);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut given = GIVEN
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if !given.contains(&port) && is_free(address) {
            given.insert(port);
            return Ok(address);
        }
    }
    bail!("no free port between 10000 and {below} on 127.0.0.1");
}

/// Binds, but does not listen: a child that another thread forks off at this moment holds the socket until it
/// runs its program, and a socket that listens would keep the server from its port for that long.
fn is_free(address: SocketAddr) -> bool {
    let bound = TcpSocket::new_v4().and_then(|socket| {
        socket.set_reuseaddr(true)?;
        socket.bind(address)
    });
    bound.is_ok()
}

fn first_outgoing_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok());
    // A machine that lets outgoing connections take nearly all ports leaves no range of its own: take the
    // usual one then.
    first.filter(|first| *first > 12_000).unwrap_or(32_768)
}
