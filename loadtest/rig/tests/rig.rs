//! The rig itself: it starts, suffers what it is told to, and leaves nothing behind.
#![expect(
    clippy::unwrap_used,
    reason = "clippy sees that functions are tests, not that their helpers are"
)]

use redis::cmd;
use rig::{Options, Proxy, Rig};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

/// Processes whose working directory lies in a folder: all that a rig started.
fn processes_in(folder: &Path) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read_link(process.path().join("cwd")).ok())
        .filter(|directory| directory.starts_with(folder))
        .collect()
}

async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn request<T: redis::FromRedisValue>(address: &str, command: &redis::Cmd) -> T {
    let client = redis::Client::open(format!("redis://{address}/")).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    command.query_async(&mut connection).await.unwrap()
}

async fn select_one(url: &str) -> bool {
    let Ok((client, connection)) = tokio_postgres::connect(url, tokio_postgres::NoTls).await else {
        return false;
    };
    tokio::spawn(connection);
    client.simple_query("SELECT 1").await.is_ok()
}

#[tokio::test]
async fn it_starts_and_leaves_nothing_behind() {
    let rig = Rig::start(Options::default()).await.unwrap();
    let folder = rig.folder().to_owned();
    assert!(processes_in(&folder).len() >= 7);
    assert_eq!(rig.redis_nodes().len(), 6);
    let view = rig.cluster.view().await.unwrap();
    assert_eq!(view.iter().filter(|node| node.is_master).count(), 3);
    for slot in [0, 8000, 16383] {
        let master = rig.cluster.master_of(slot).await.unwrap();
        assert_eq!(rig.cluster.replicas_of(&master).await.unwrap().len(), 1);
    }
    assert!(select_one(&rig.postgres_url()).await);
    let one = rig.create_database().await.unwrap();
    assert_ne!(one, rig.create_database().await.unwrap());
    assert!(select_one(&one).await);
    drop(rig);
    assert!(!folder.exists());
    assert_eq!(processes_in(&folder), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_killed_master_is_replaced_and_comes_back_as_a_replica() {
    let rig = Rig::start(Options {
        postgres: false,
        ..Options::default()
    })
    .await
    .unwrap();
    // Slot 12182 is that of "foo".
    let old = rig.cluster.master_of(12182).await.unwrap();
    let _: String = request(&old, cmd("SET").arg("foo").arg("bar")).await;
    let _: i64 = request(&old, cmd("WAIT").arg(1).arg(1000)).await;
    let replica = rig.cluster.replicas_of(&old).await.unwrap().remove(0);
    rig.cluster.kill(&old).unwrap();
    let deadline = Instant::now() + Duration::from_secs(15);
    while rig.cluster.master_of(12182).await.ok().as_ref() != Some(&replica) {
        assert!(Instant::now() < deadline, "no failover");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(
        request::<String>(&replica, cmd("GET").arg("foo")).await,
        "bar"
    );
    rig.cluster.restart(&old).unwrap();
    rig.cluster.wait_healthy().await.unwrap();
    assert_eq!(
        rig.cluster.replicas_of(&replica).await.unwrap(),
        std::slice::from_ref(&old)
    );
    assert_eq!(rig.cluster.failover(&replica).await.unwrap(), old);
}

#[tokio::test]
async fn a_slot_moves_with_its_keys_and_a_stalled_node_goes_on() {
    let rig = Rig::start(Options {
        postgres: false,
        ..Options::default()
    })
    .await
    .unwrap();
    let (source, target) = (
        rig.cluster.master_of(12182).await.unwrap(),
        rig.cluster.master_of(0).await.unwrap(),
    );
    let _: String = request(&source, cmd("SET").arg("foo").arg("bar")).await;
    rig.cluster.migrate_slot(12182, &target).await.unwrap();
    assert_eq!(rig.cluster.master_of(12182).await.unwrap(), target);
    assert_eq!(
        request::<String>(&target, cmd("GET").arg("foo")).await,
        "bar"
    );

    let replica = rig.cluster.replicas_of(&target).await.unwrap().remove(0);
    rig.cluster.stall(&replica).unwrap();
    // On one connection: WAIT on a fresh one says 1 whatever the replica does.
    let client = redis::Client::open(format!("redis://{target}/")).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let set_and_wait = redis::pipe()
        .cmd("SET")
        .arg("foo")
        .arg("baz")
        .cmd("WAIT")
        .arg(1)
        .arg(200)
        .to_owned();
    let (_, replicas): (String, i64) = set_and_wait.query_async(&mut connection).await.unwrap();
    assert_eq!(replicas, 0);
    rig.cluster.resume(&replica).unwrap();
    rig.cluster.wait_healthy().await.unwrap();
}

#[tokio::test]
async fn postgres_stops_dies_and_comes_back() {
    let rig = Rig::start(Options::default()).await.unwrap();
    let url = rig.create_database().await.unwrap();
    rig.postgres.stop().await.unwrap();
    assert!(!select_one(&url).await);
    rig.postgres.start_again().await.unwrap();
    assert!(select_one(&url).await);
    rig.postgres.kill().unwrap();
    assert!(!select_one(&url).await);
    rig.postgres.start_again().await.unwrap();
    assert!(select_one(&url).await);
}

#[tokio::test]
async fn a_single_redis_takes_the_lines_it_is_given() {
    let rig = Rig::start(Options {
        postgres: false,
        ..Options::default()
    })
    .await
    .unwrap();
    let (address, process) = rig
        .redis_alone(&[("maxmemory-policy", "allkeys-lru")])
        .await
        .unwrap();
    let info: String = request(&address, cmd("INFO").arg("memory")).await;
    assert!(info.contains("maxmemory_policy:allkeys-lru"));
    drop(process);
    assert!(TcpStream::connect(&address).await.is_err());
}

#[tokio::test]
async fn a_proxy_cuts_stalls_refuses_and_passes_over_the_dead() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let echo = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    let dead = rig::free_address().unwrap();
    let proxy = Proxy::balance("127.0.0.1:0".parse().unwrap(), vec![dead, echo])
        .await
        .unwrap();
    let mut answer = [0; 2];

    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_all(b"hi").await.unwrap();
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"hi");

    proxy.stall();
    stream.write_all(b"ho").await.unwrap();
    let silence = timeout(Duration::from_millis(200), stream.read_exact(&mut answer)).await;
    assert!(silence.is_err());
    proxy.resume();
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"ho");

    proxy.delay(Duration::from_millis(50));
    let sent = Instant::now();
    stream.write_all(b"hu").await.unwrap();
    stream.read_exact(&mut answer).await.unwrap();
    assert!(sent.elapsed() >= Duration::from_millis(100));
    proxy.resume();

    proxy.cut();
    assert!(matches!(stream.read(&mut answer).await, Ok(0) | Err(_)));

    proxy.refuse_websockets(true);
    let mut websocket = TcpStream::connect(proxy.address()).await.unwrap();
    websocket
        .write_all(b"GET / HTTP/1.1\r\nUpgrade: WebSocket\r\n\r\n")
        .await
        .unwrap();
    assert!(matches!(websocket.read(&mut answer).await, Ok(0) | Err(_)));
    let mut other = TcpStream::connect(proxy.address()).await.unwrap();
    other.write_all(b"hi").await.unwrap();
    other.read_exact(&mut answer).await.unwrap();
    proxy.resume();

    let mut websocket = TcpStream::connect(proxy.address()).await.unwrap();
    websocket
        .write_all(b"GET / HTTP/1.1\r\nupgrade: websocket\r\n\r\n")
        .await
        .unwrap();
    websocket.read_exact(&mut answer).await.unwrap();
    proxy.cut_websockets();
    let mut rest = Vec::new();
    let _ = websocket.read_to_end(&mut rest).await;
    other.write_all(b"ho").await.unwrap();
    other.read_exact(&mut answer).await.unwrap();

    proxy.refuse(true);
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(matches!(stream.read(&mut answer).await, Ok(0) | Err(_)));
}

/// Not a test: what the two tests below start and end in rude ways.
#[tokio::test]
#[ignore = "started by other tests as a process of its own"]
async fn a_rig_until_killed() {
    let rig = rig::shared().await;
    // A thread of a test ends long before its process: children must not die with it.
    println!("folder {}", rig.folder().display());
    sleep(Duration::from_secs(120)).await;
}

/// Starts the function above; its process, and the folder of its rig.
fn rig_in_another_process() -> (std::process::Child, PathBuf) {
    // A test run in the background of a shell ignores SIGINT, and so would its children.
    let mut child = Command::new("env")
        .arg("--default-signal=INT")
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "a_rig_until_killed"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let folder = lines.find_map(|line| {
        line.unwrap()
            .split_once("folder ")
            .map(|(_, folder)| PathBuf::from(folder))
    });
    (child, folder.unwrap())
}

#[tokio::test]
async fn nothing_is_left_when_its_process_is_killed_or_interrupted() {
    for signal in ["KILL", "INT", "TERM"] {
        let (mut child, folder) = rig_in_another_process();
        assert!(processes_in(&folder).len() >= 7);
        let killed = Command::new("kill")
            .args(["-s", signal, &child.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        child.wait().unwrap();
        wait_until("the folder is gone", || !folder.exists()).await;
        wait_until("the processes are gone", || {
            processes_in(&folder).is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn nothing_is_left_after_a_panic() {
    let (sender, folder) = std::sync::mpsc::sync_channel(1);
    let panicked = tokio::spawn(async move {
        let rig = Rig::start(Options {
            postgres: false,
            ..Options::default()
        })
        .await
        .unwrap();
        sender.send(rig.folder().to_owned()).unwrap();
        panic!("on purpose");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    let folder = folder.recv().unwrap();
    assert!(!folder.exists() && processes_in(&folder).is_empty());
}
