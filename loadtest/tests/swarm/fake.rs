//! A gateway that does as it is told: it shakes hands, sends the frames that a test has it send, and notes what comes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a phone sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Text(String),
    Pong(Vec<u8>),
    Close,
}

#[derive(Debug, Default)]
pub(crate) struct Fake {
    /// Handshakes are answered 503.
    pub(crate) is_full: AtomicBool,
    /// Taps are not acknowledged.
    pub(crate) is_mute: AtomicBool,
    /// They are so many milliseconds later.
    pub(crate) acks_after_ms: AtomicU64,
    /// The one total there is.
    total: AtomicU64,
    /// Those who joined, in order.
    members: Mutex<Vec<TcpStream>>,
    /// By connection, in order.
    said: Mutex<Vec<Vec<Said>>>,
}

impl Fake {
    pub(crate) fn start() -> (Arc<Fake>, SocketAddr) {
        let fake = Arc::new(Fake::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let host = Arc::clone(&fake);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let host = Arc::clone(&host);
                // A phone that goes ends it, however it goes.
                thread::spawn(move || host.serve(stream));
            }
        });
        (fake, address)
    }

    pub(crate) fn said(&self) -> Vec<Vec<Said>> {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn joined(&self) -> usize {
        self.members.lock().unwrap().len()
    }

    pub(crate) fn members_from(&self, source: Ipv4Addr) -> usize {
        let members = self.members.lock().unwrap();
        let sources = members
            .iter()
            .map(|member| member.peer_addr().unwrap().ip());
        sources.filter(|ip| *ip == source).count()
    }

    /// The room goes on by one, and all are told but one of them.
    pub(crate) fn tick_but(&self, left_out: Option<usize>) {
        let members = self.members.lock().unwrap();
        let total = self.total.fetch_add(1, Relaxed) + 1;
        let frame = text(&format!(r#"{{"tick":{{"totals":{{"clap":{total}}}}}}}"#));
        for (index, mut member) in members.iter().enumerate() {
            if Some(index) != left_out {
                // One that is gone is not there to miss it.
                let _ = member.write_all(&frame);
            }
        }
    }

    /// One who was left out gets the room as a whole.
    pub(crate) fn make_good(&self, index: usize) {
        let members = self.members.lock().unwrap();
        (&members[index]).write_all(&self.room()).unwrap();
    }

    /// All get these bytes.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let members = self.members.lock().unwrap();
        members
            .iter()
            .try_for_each(|mut member| member.write_all(bytes))
    }

    fn room(&self) -> Vec<u8> {
        let total = self.total.load(Relaxed);
        let palette = r#"[{"key":"clap","emoji":"👏","label":"Applause"}]"#;
        text(&format!(
            r#"{{"room":{{"title":"T","palette":{palette},"cooldown_ms":100,"state":"open","totals":{{"clap":{total}}}}}}}"#
        ))
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(byte(&mut stream)?);
        }
        if self.is_full.load(Relaxed) {
            return stream
                .write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
        }
        stream.write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nuproar-gateway: 0badcafe\r\n\r\n",
        )?;
        let connection = {
            let mut said = self.said.lock().unwrap();
            said.push(Vec::new());
            said.len() - 1
        };
        loop {
            let heard = hear(&mut stream)?;
            self.said.lock().unwrap()[connection].push(heard.clone());
            match heard {
                Said::Text(text) if text.starts_with(r#"{"join""#) => {
                    // No tick may come between.
                    let mut members = self.members.lock().unwrap();
                    stream.write_all(&self.room())?;
                    members.push(stream.try_clone()?);
                }
                Said::Text(tap) if tap.starts_with(r#"{"tap""#) => self.take(&mut stream, &tap)?,
                Said::Text(_) | Said::Pong(_) => {}
                Said::Close => return Ok(()),
            }
        }
    }

    fn take(&self, stream: &mut TcpStream, tap: &str) -> io::Result<()> {
        if self.is_mute.load(Relaxed) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(self.acks_after_ms.load(Relaxed)));
        let tap: serde_json::Value = serde_json::from_str(tap)?;
        stream.write_all(&text(&format!(r#"{{"ack":{}}}"#, tap["tap"]["seq"])))
    }
}

/// A text frame as a server sends it.
pub(crate) fn text(text: &str) -> Vec<u8> {
    frame(1, text.as_bytes())
}

/// A frame as a server sends it.
pub(crate) fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match u8::try_from(payload.len()) {
        Ok(length @ 0..126) => frame.push(length),
        _ => {
            frame.push(126);
            frame.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

fn byte(stream: &mut TcpStream) -> io::Result<u8> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn hear(stream: &mut TcpStream) -> io::Result<Said> {
    let opcode = byte(stream)? & 0x0f;
    let length = usize::from(byte(stream)? & 0x7f);
    assert!(length < 126, "phones send short frames");
    let mut mask = [0; 4];
    stream.read_exact(&mut mask)?;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Ok(match opcode {
        1 => Said::Text(String::from_utf8(payload).unwrap()),
        8 => Said::Close,
        10 => Said::Pong(payload),
        _ => panic!("opcode {opcode}"),
    })
}
