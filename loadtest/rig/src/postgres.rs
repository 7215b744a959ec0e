//! A Postgres server of its own.

use crate::folder::tail;
use crate::ports::free_address;
use crate::process::{Process, Program};
use anyhow::{Context, bail};
use nix::sys::signal::Signal;
use nix::unistd::{Uid, User};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the server may take to answer, on a busy machine; a crash recovery included.
const UP_WITHIN: Duration = Duration::from_secs(30);

/// The database server of a rig, or none.
#[derive(Debug)]
pub struct Postgres {
    server: Option<Server>,
}

#[derive(Debug)]
struct Server {
    directory: PathBuf,
    binaries: PathBuf,
    /// Whom it runs as: initdb and postgres refuse root.
    user: Option<String>,
    address: SocketAddr,
    password: String,
    process: Mutex<Option<Process>>,
}

impl Postgres {
    pub(crate) fn none() -> Postgres {
        Postgres { server: None }
    }

    pub(crate) async fn start(folder: &Path) -> anyhow::Result<Postgres> {
        let directory = folder.join("postgres");
        std::fs::create_dir(&directory)?;
        let user = server_user(&directory)?;
        let password = format!("{:032x}", rand::random::<u128>());
        std::fs::write(directory.join("password"), &password)?;
        // Readable to the server's user only, once it is its own.
        std::fs::set_permissions(
            directory.join("password"),
            std::fs::Permissions::from_mode(0o600),
        )?;
        if let Some(user) = &user {
            chown(
                directory.join("password"),
                Some(user.uid.as_raw()),
                Some(user.gid.as_raw()),
            )?;
        }
        let user = user.map(|user| user.name);
        let address = free_address()?;
        let binaries = binaries()?;
        let process = Mutex::new(None);
        let server = Server {
            directory,
            binaries,
            user,
            address,
            password,
            process,
        };
        server.initdb().await?;
        let postgres = Postgres {
            server: Some(server),
        };
        postgres.start_again().await?;
        postgres.execute("CREATE DATABASE uproar").await?;
        Ok(postgres)
    }

    /// The URL of a database of this server.
    ///
    /// # Panics
    /// When the rig was started without Postgres.
    pub fn url(&self, database: &str) -> String {
        let server = self
            .server
            .as_ref()
            .expect("the rig was started with Options::postgres");
        format!(
            "postgres://uproar:{}@{}/{database}",
            server.password, server.address
        )
    }

    /// Where it listens, for a proxy in front of it.
    ///
    /// # Errors
    /// The rig was started without Postgres.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.server()?.address)
    }

    /// The process id of the server, the parent of all its processes.
    ///
    /// # Errors
    /// The rig was started without Postgres, or it does not run.
    pub fn pid(&self) -> anyhow::Result<u32> {
        let slot = self.server()?.slot();
        Ok(slot.as_ref().context("Postgres does not run")?.pid())
    }

    /// Stops it in good order but at once (open transactions are rolled back), and waits for its end.
    ///
    /// # Errors
    /// It does not end.
    pub async fn stop(&self) -> anyhow::Result<()> {
        let process = self.server()?.slot().take();
        if let Some(process) = process {
            process.signal(Signal::SIGINT);
            process.wait(UP_WITHIN).await?;
        }
        Ok(())
    }

    /// kill -9: its next start recovers from its log.
    ///
    /// # Errors
    /// The rig was started without Postgres.
    pub fn kill(&self) -> anyhow::Result<()> {
        drop(self.server()?.slot().take());
        Ok(())
    }

    /// Starts it again and waits until it answers.
    ///
    /// # Errors
    /// It does not; the message holds the end of its log.
    pub async fn start_again(&self) -> anyhow::Result<()> {
        let server = self.server()?;
        let deadline = Instant::now() + UP_WITHIN;
        server.run()?;
        loop {
            let Err(error) = self.execute("SELECT 1").await else {
                return Ok(());
            };
            if Instant::now() > deadline {
                return Err(error.context(tail(&server.log())));
            }
            sleep(Duration::from_millis(50)).await;
            // Backends of a killed server hold its shared memory for a moment: until then a start fails.
            if server
                .slot()
                .as_ref()
                .is_none_or(|process| !process.is_running())
            {
                server.run()?;
            }
        }
    }

    pub(crate) async fn create_database(&self) -> anyhow::Result<String> {
        let name = format!("test_{:016x}", rand::random::<u64>());
        self.execute(&format!("CREATE DATABASE {name}")).await?;
        Ok(self.url(&name))
    }

    async fn execute(&self, statement: &str) -> anyhow::Result<()> {
        let url = self.url("postgres");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        let work = async { client.batch_execute(statement).await };
        tokio::select! {
            done = work => Ok(done?),
            ended = connection => bail!("the connection to Postgres ended: {ended:?}"),
        }
    }

    fn server(&self) -> anyhow::Result<&Server> {
        self.server
            .as_ref()
            .context("the rig was started without Postgres")
    }
}

impl Server {
    async fn initdb(&self) -> anyhow::Result<()> {
        let data = self.directory.join("data").display().to_string();
        let password = self.directory.join("password").display().to_string();
        let arguments = [
            "-D",
            &data,
            "-U",
            "uproar",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
        arguments.extend([
            "--auth=scram-sha-256".to_owned(),
            format!("--pwfile={password}"),
        ]);
        self.program("initdb", arguments).run().await
    }

    fn run(&self) -> anyhow::Result<()> {
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", self.address.port()),
            format!("unix_socket_directories={}", self.directory.display()),
            "shared_buffers=32MB".to_owned(),
            "max_connections=100".to_owned(),
            "fsync=on".to_owned(),
            "timezone=UTC".to_owned(),
        ];
        let mut arguments = vec![
            "-D".to_owned(),
            self.directory.join("data").display().to_string(),
        ];
        arguments.extend(
            settings
                .into_iter()
                .flat_map(|setting| ["-c".to_owned(), setting]),
        );
        let process = self.program("postgres", arguments).start()?;
        *self.slot() = Some(process);
        Ok(())
    }

    fn program(&self, name: &'static str, arguments: Vec<String>) -> Program<'_> {
        Program {
            name,
            program: self.binaries.join(name),
            arguments,
            environment: Vec::new(),
            directory: &self.directory,
            log: self.log(),
            user: self.user.as_deref(),
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.join("postgres.log")
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.process
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// When we are root, the user that the server runs as instead, who now owns `directory`.
fn server_user(directory: &Path) -> anyhow::Result<Option<User>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::from_name(name)? {
            chown(directory, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
            return Ok(Some(user));
        }
    }
    bail!("Postgres refuses to run as root, and there is no user postgres or nobody to run it as")
}

/// The folder with initdb and postgres: in PATH, or where Debian keeps it, the newest version first.
fn binaries() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    versions.sort();
    folders.extend(
        versions
            .into_iter()
            .rev()
            .map(|(_, folder)| folder.join("bin")),
    );
    folders
        .into_iter()
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        .context("initdb and postgres are neither in PATH nor in /usr/lib/postgresql; install postgresql")
}
