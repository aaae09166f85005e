//! Processes that lock when they are told to: the program of leasehold and the baseline, which calls etcd by Go's client.
//! Both speak the protocol that `bin/leasehold-bench-load.rs` describes.

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// For the start of a process, and for each of its answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whose program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Leasehold's.
    Ours,
    /// Go's client of etcd.
    Go,
}

impl Side {
    fn program(self) -> Result<PathBuf> {
        let beside = std::env::current_exe()?;
        let directory = beside.parent().unwrap_or(Path::new("."));
        let program = directory.join(match self {
            Self::Ours => "leasehold-bench-load",
            Self::Go => "leasehold-bench-baseline",
        });
        if program.is_file() {
            Ok(program)
        } else {
            Err(format!("there is no {}; run: make bench", program.display()).into())
        }
    }
}

/// What came of a job.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Done {
    /// How often something was acquired and released.
    pub pairs: u32,
    /// How long it took.
    pub seconds: f64,
    /// Of one acquire and release.
    pub p50_us: f64,
    /// The same.
    pub p99_us: f64,
    /// Processor time of the process.
    pub cpu_us: f64,
}

impl Done {
    /// Pairs a second.
    pub fn rate(&self) -> f64 {
        f64::from(self.pairs) / self.seconds
    }
}

/// A process. Ends when this is dropped.
pub struct Load {
    side: Side,
    process: Child,
    tell: ChildStdin,
    hear: Lines<BufReader<ChildStdout>>,
}

impl Load {
    /// Starts one.
    pub async fn start(side: Side, endpoint: &str) -> Result<Self> {
        let mut load = Self::begin(side, endpoint)?;
        load.is_ready().await?;
        Ok(load)
    }

    /// Starts many at once.
    pub async fn many(side: Side, endpoint: &str, count: usize) -> Result<Vec<Self>> {
        let mut loads = (0..count).map(|_| Self::begin(side, endpoint)).collect::<Result<Vec<_>>>()?;
        for load in &mut loads {
            load.is_ready().await?;
        }
        Ok(loads)
    }

    fn begin(side: Side, endpoint: &str) -> Result<Self> {
        let mut process = Command::new(side.program()?)
            .args(["--endpoint", endpoint])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(tell), Some(hear)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("it has no pipes".into());
        };
        Ok(Self { side, process, tell, hear: BufReader::new(hear).lines() })
    }

    async fn is_ready(&mut self) -> Result<()> {
        match self.line().await?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("{:?} said {other:?} instead of \"ready\"", self.side).into()),
        }
    }

    /// Gives it a job.
    pub async fn tell(&mut self, job: &str) -> Result<()> {
        Ok(self.tell.write_all(format!("{job}\n").as_bytes()).await?)
    }

    /// What came of it.
    pub async fn hear(&mut self) -> Result<Done> {
        Ok(serde_json::from_str(&self.line().await?)?)
    }

    /// Waits until it has ended and left nothing behind: one that is killed leaves its lease, and perhaps a place in a queue.
    pub async fn end(self) -> Result<()> {
        let Self { side, mut process, tell, .. } = self;
        drop(tell);
        match tokio::time::timeout(PATIENCE, process.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(status) => Err(format!("the process of {side:?} ended with {status:?}").into()),
            Err(_) => Err(format!("the process of {side:?} does not end").into()),
        }
    }

    async fn line(&mut self) -> Result<String> {
        match tokio::time::timeout(PATIENCE, self.hear.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => Err(format!("the process of {:?} ended", self.side).into()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(format!("the process of {:?} is silent", self.side).into()),
        }
    }
}
