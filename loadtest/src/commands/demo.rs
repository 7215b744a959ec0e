//! `uproar-loadtest demo`: the whole system on this machine, with simulated phones, until Ctrl-C.

use crate::crowd::{Crowd, Phase};
use crate::stack::{Stack, StackOptions};
use crate::{api, commands};
use anyhow::Context;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use tokio::time::{Instant, interval};

/// The room of the demo.
const CODE: &str = "PARTY7";

/// Starts two gateways behind one port, an aggregator, a persister, Redis and Postgres, a room and phones that tap in
/// it; prints the links and a QR code, and runs until Ctrl-C.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The port that phones connect to
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Simulated phones
    #[arg(long, default_value_t = 50)]
    phones: usize,
}

/// Runs the command.
///
/// # Errors
/// Something did not start.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    commands::until_interrupted(show(arguments)).await?;
    // The rig is gone by now: dropping it took everything down.
    eprintln!("\nEverything is taken down.");
    Ok(())
}

async fn show(arguments: Arguments) -> anyhow::Result<()> {
    let started = Instant::now();
    let Arguments { port, phones } = arguments;
    let address = lan_address();
    let public_url = format!("http://{address}:{port}");
    // Whoever sits at this machine may use any of its names.
    let origins = format!("{public_url},http://localhost:{port},http://127.0.0.1:{port}");
    let options = StackOptions {
        listen: Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        public_url: Some(public_url),
        settings: vec![("UPROAR_GATEWAY__ORIGINS".to_owned(), origins)],
        ..StackOptions::default()
    };
    let progress = |step: &str| eprintln!("[{:4.1} s] {step}", started.elapsed().as_secs_f32());
    // Told now, not after the seconds in which Redis starts.
    drop(
        std::net::TcpListener::bind(options.listen.unwrap_or(([0, 0, 0, 0], port).into()))
            .with_context(|| {
                format!("port {port} cannot be had; choose another: make demo PORT=8090")
            })?,
    );
    let stack = Stack::start(options, progress).await?;
    progress("making the room");
    let front = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let room = json!({ "title": "Uproar demo", "code": CODE });
    let room = api::make_room(front, stack.rig.admin_key(), &room).await?;
    let mut crowd = Crowd::new(front);
    let shown = api::room(front, &room.code).await?;
    let cooldown = Duration::from_millis(u64::from(shown.cooldown_ms));
    let keys: Vec<_> = shown
        .palette
        .entries()
        .iter()
        .map(|entry| entry.key.clone())
        .collect();
    for _ in 0..phones {
        // Not as fast as they may: a room in which people listen, too.
        crowd.add_phone(&room.code, keys.clone(), cooldown.mul_f64(1.5));
    }
    crowd.set_phase(Phase::Tap);
    progress(&format!("{phones} simulated phones are tapping"));
    announce(&room.links, &stack);
    let mut second = interval(Duration::from_secs(1));
    loop {
        second.tick().await;
        if std::io::stderr().is_terminal() {
            eprint!("\r{}   ", crowd.board);
            let _ = std::io::stderr().flush();
        }
    }
}

fn announce(links: &api::Links, stack: &Stack) {
    println!();
    if let Ok(code) = QrCode::new(&links.audience) {
        let code = code.render::<Dense1x2>().quiet_zone(true).build();
        for line in code.lines() {
            // Black on white whatever the terminal's colours are: scanners want it dark on light.
            if std::io::stdout().is_terminal() {
                println!("  \x1b[30;107m{line}\x1b[0m");
            } else {
                println!("  {line}");
            }
        }
    }
    println!();
    println!("  phones   {}", links.audience);
    println!("  slides   {}", links.stage);
    println!("  host     {}", links.host);
    println!(
        "  new      {}/new   (admin key {})",
        stack.public_url(),
        stack.rig.admin_key()
    );
    println!("  analyst  psql {}", stack.rig.postgres_url());
    println!();
    println!("  Ctrl-C ends it and leaves nothing behind.");
    println!();
}

/// This machine's address as others in its network see it; its own when it is in none.
fn lan_address() -> IpAddr {
    // Connecting a datagram socket sends nothing: it only makes the kernel choose the way out.
    let chosen = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    match chosen {
        Ok(address) if !address.ip().is_unspecified() => address.ip(),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}
