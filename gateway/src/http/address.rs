//! Where a request comes from: the peer of the connection, or, behind proxies that the settings trust, what they say.

use hyper::HeaderMap;
use std::net::IpAddr;

/// Proxies whose `X-Forwarded-For` is believed.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies {
    networks: Vec<Network>,
}

#[derive(Debug, Clone, Copy)]
struct Network {
    address: IpAddr,
    prefix: u8,
}

impl TrustedProxies {
    /// Adds an address (`10.0.0.7`) or a network (`10.0.0.0/8`, `fd00::/8`). False: it is neither.
    #[must_use]
    pub fn trust(&mut self, text: &str) -> bool {
        let network = Network::parse(text);
        self.networks.extend(network);
        network.is_some()
    }

    /// The client's address: from the right of `X-Forwarded-For`, the first that is not a trusted proxy. Further left
    /// stands what the client itself may have written.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if !self.trusts(client) {
            return client;
        }
        for line in headers.get_all("x-forwarded-for").iter().rev() {
            for hop in line.to_str().unwrap_or_default().rsplit(',') {
                let Some(hop) = parse_hop(hop.trim()) else {
                    return client;
                };
                client = hop.to_canonical();
                if !self.trusts(client) {
                    return client;
                }
            }
        }
        client
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks
            .iter()
            .any(|network| network.contains(address))
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.trim().split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        (prefix <= bits).then_some(Network { address, prefix })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let prefix = u32::from(self.prefix);
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                (ours.to_bits() ^ theirs.to_bits()).leading_zeros() >= prefix
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                (ours.to_bits() ^ theirs.to_bits()).leading_zeros() >= prefix
            }
            _ => false,
        }
    }
}

/// One hop: an address, with or without a port or brackets (some proxies write both).
fn parse_hop(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.split(']').next())
        .unwrap_or(text);
    bare.parse().ok().or_else(|| {
        text.parse::<std::net::SocketAddr>()
            .ok()
            .map(|hop| hop.ip())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(proxies: &[&str], peer: &str, forwarded: &[&str]) -> String {
        let mut trusted = TrustedProxies::default();
        assert!(proxies.iter().all(|text| trusted.trust(text)));
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", line.parse().unwrap());
        }
        trusted.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn nobody_is_believed_by_default() {
        assert_eq!(
            client(&[], "198.51.100.1", &["203.0.113.9"]),
            "198.51.100.1"
        );
        assert_eq!(
            client(&["10.0.0.0/8"], "198.51.100.1", &["203.0.113.9"]),
            "198.51.100.1"
        );
    }

    #[test]
    fn a_trusted_proxy_names_the_client_and_the_client_cannot() {
        let proxies = ["10.0.0.0/8", "fd00::/8"];
        assert_eq!(
            client(&proxies, "10.1.2.3", &["203.0.113.9"]),
            "203.0.113.9"
        );
        assert_eq!(
            client(&proxies, "::ffff:10.1.2.3", &["203.0.113.9"]),
            "203.0.113.9"
        );
        assert_eq!(
            client(&proxies, "10.1.2.3", &["1.1.1.1, 203.0.113.9, 10.9.9.9"]),
            "203.0.113.9"
        );
        assert_eq!(
            client(&proxies, "fd00::1", &["1.1.1.1", "203.0.113.9", "10.9.9.9"]),
            "203.0.113.9"
        );
        assert_eq!(
            client(&proxies, "10.1.2.3", &["203.0.113.9:5555"]),
            "203.0.113.9"
        );
        assert_eq!(
            client(&proxies, "10.1.2.3", &["[2001:db8::1]:5555"]),
            "2001:db8::1"
        );
    }

    #[test]
    fn what_cannot_be_read_ends_at_the_last_hop_that_could() {
        assert_eq!(client(&["10.0.0.0/8"], "10.1.2.3", &[]), "10.1.2.3");
        assert_eq!(
            client(
                &["10.0.0.0/8"],
                "10.1.2.3",
                &["203.0.113.9, unknown, 10.0.0.1"]
            ),
            "10.0.0.1"
        );
    }

    #[test]
    fn networks_are_checked() {
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "localhost",
            "fd00::/129",
            "10.0.0.0/",
        ] {
            assert!(!TrustedProxies::default().trust(wrong), "{wrong}");
        }
        for right in ["0.0.0.0/0", "::/0", " 127.0.0.1 "] {
            assert!(TrustedProxies::default().trust(right), "{right}");
        }
    }
}
