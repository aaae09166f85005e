//! Uncontended acquire and release in every language, against the blocking form of the Rust core in a program that Cargo built
//! as it does by default; `rust-dist` is the same program, built as the libraries of the other languages are.
//!
//! Each language has a worker, `tests/bench/workers/<language>/run --endpoint URL --mode sync|async`: a process that prints
//! `ready`, then takes numbers, line by line: so many times it acquires and releases a lock of its own, and prints the
//! nanoseconds that this took. A form that a language does not have ends before it is ready.

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::stats::Sample;

const CYCLES: u32 = 200;
/// Before the first round: connections, caches, compilers.
const WARM_UP: u32 = 1_000;
/// For the start of a worker, and for each of its answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a form may cost, as a multiple of the Rust core's blocking form.
const LIMITS: [(&str, &str, f64); 5] = [
    ("c", "sync", 1.05),
    ("python", "sync", 1.10),
    ("python", "async", 1.20),
    ("node", "async", 1.10),
    ("java", "sync", 1.10),
];

/// `only` these languages beside Rust, or all if it names none.
pub async fn run(endpoint: &str, rounds: usize, only: &[String]) -> Result<(), Box<dyn Error>> {
    let mut workers = Vec::new();
    let programs = programs()?;
    if let Some(unknown) = only.iter().find(|name| !programs.iter().any(|(language, _)| language == *name)) {
        return Err(format!("there is no worker of {unknown:?}").into());
    }
    for (language, program) in programs {
        if !only.is_empty() && language != "rust" && !only.contains(&language) {
            continue;
        }
        for mode in ["sync", "async"] {
            match Worker::start(&language, &program, mode, endpoint).await {
                Ok(worker) => workers.push(worker),
                Err(why) => println!("languages   {language} {mode}: none ({why})"),
            }
        }
    }
    for worker in &mut workers {
        worker.cycle(WARM_UP).await?;
    }
    let mut times = vec![Vec::new(); workers.len()];
    // Everybody comes after everybody else: what one leaves in caches and on the disk, its neighbour pays for.
    let mut random = fastrand::Rng::with_seed(1);
    let mut order: Vec<usize> = (0..workers.len()).collect();
    for _ in 0..rounds {
        random.shuffle(&mut order);
        for &next in &order {
            times[next].push(workers[next].cycle(CYCLES).await?);
        }
    }
    let Some(base) = workers.iter().position(|it| (it.language.as_str(), it.mode) == ("rust", "sync")) else {
        return Err("the worker of Rust did not start: there is nothing to compare with".into());
    };
    for (worker, taken) in workers.iter().zip(&times) {
        // Round by round, so that the machine's mood hits both.
        let pairs = || taken.iter().zip(&times[base]);
        let ratio = Sample::new(pairs().map(|(ours, theirs)| ours / theirs).collect()).median();
        let more = Sample::new(pairs().map(|(ours, theirs)| ours - theirs).collect()).median();
        let limit = LIMITS.iter().find(|(language, mode, _)| (*language, *mode) == (&worker.language, worker.mode));
        println!(
            "languages   {:<9} {:<5} {}: {ratio:.3} x, {more:+.1} µs{}",
            worker.language,
            worker.mode,
            Sample::new(taken.clone()).show("µs"),
            limit.map_or(String::new(), |(.., limit)| format!("   (limit {limit:.2} x)")),
        );
    }
    println!("            acquire+release against rust sync: {rounds} interleaved rounds of {CYCLES}");
    Ok(())
}

/// Every language that has a worker, Rust first.
fn programs() -> Result<Vec<(String, PathBuf)>, Box<dyn Error>> {
    let mut found = Vec::new();
    for directory in Path::new(env!("CARGO_MANIFEST_DIR")).join("workers").read_dir()? {
        let directory = directory?;
        let program = directory.path().join("run");
        if program.is_file() {
            found.push((directory.file_name().to_string_lossy().into_owned(), program));
        }
    }
    found.sort_by_key(|(language, _)| (language != "rust", language != "bridge", language.clone()));
    Ok(found)
}

/// A process that cycles a lock when it is told to.
struct Worker {
    language: String,
    mode: &'static str,
    /// Killed when this is dropped.
    _process: Child,
    tell: ChildStdin,
    hear: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    async fn start(language: &str, program: &Path, mode: &'static str, endpoint: &str) -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(program)
            .args(["--endpoint", endpoint, "--mode", mode])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(tell), Some(hear)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("it has no pipes".into());
        };
        let hear = BufReader::new(hear).lines();
        let mut worker = Self { language: language.to_owned(), mode, _process: process, tell, hear };
        match worker.line().await?.as_str() {
            "ready" => Ok(worker),
            other => Err(format!("it said {other:?} instead of \"ready\"").into()),
        }
    }

    /// The time of one cycle in microseconds.
    async fn cycle(&mut self, cycles: u32) -> Result<f64, Box<dyn Error>> {
        self.tell.write_all(format!("{cycles}\n").as_bytes()).await?;
        let nanoseconds: f64 = self.line().await?.trim().parse()?;
        Ok(nanoseconds / f64::from(cycles) / 1e3)
    }

    async fn line(&mut self) -> Result<String, Box<dyn Error>> {
        match tokio::time::timeout(PATIENCE, self.hear.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => Err(format!("the worker {} {} ended", self.language, self.mode).into()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(format!("the worker {} {} is silent", self.language, self.mode).into()),
        }
    }
}
