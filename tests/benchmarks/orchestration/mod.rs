//! `orchestration`: a new Kubernetes version is pushed for every cluster of a fleet, until every machine of it runs that version and whoever
//! brought it about says that all is well.
//!
//! Cluster API, Flux, git and the API server are real; machines exist in memory. Three sides do the same work, each in a management cluster of
//! its own: Stepgate; a script of `clusterctl`, `kubectl` and `git`; Flux alone, which is given the change at once. What the clusters have in the
//! end is compared first.
//!
//! `STEPGATE_CLUSTERS=1,10` are the sizes of the fleet, and `STEPGATE_DOCS=FOLDER` is where the page and its picture are written.

mod fleet;
mod page;
mod scene;
mod sides;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tests::servers::{ClusterApi, Flux, Programs};

use self::scene::Scene;
use self::sides::Side;
use crate::Environment;
use crate::measure::Sample;
use crate::report::{Report, line, median};

/// Measures one side at one size, in namespaces of its own: `orchestration-inside SIDE CLUSTERS ROUNDS FOLDER`.
pub const INSIDE_VERB: &str = "orchestration-inside";

const SIZES: [usize; 3] = [1, 10, 50];

/// Each round is a rollout of the whole fleet.
const ROUNDS: usize = 3;

/// What was measured of one side at one size.
struct Measured {
    side: Side,
    clusters: usize,
    /// From the push until every machine runs the version, and until the side says that it is done.
    rounds: Vec<(Duration, Duration)>,
    /// What the clusters have in the end.
    end: Value,
}

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let mut report = Report {
        work: "a Kubernetes version is pushed for every cluster, until every machine runs it and the side says so"
            .to_owned(),
        ..Report::default()
    };
    let programs = match Programs::find(&needed()) {
        Ok(programs) => programs,
        Err(missing) => {
            report.notes.push(format!("not measured: {missing:#}"));
            return Ok(report);
        }
    };
    let rounds = environment.rounds.min(ROUNDS);
    let mut measured = Vec::new();
    for clusters in crate::sizes(&SIZES)? {
        for side in Side::ALL {
            let folder = environment.scratch.path().join(format!("orchestration-{clusters}-{}", side.name()));
            measured.push(inside(side, clusters, rounds, &folder)?);
            std::fs::remove_dir_all(&folder)?;
        }
    }
    for own in &measured {
        let first = measured.iter().find(|first| first.clusters == own.clusters);
        let what = format!("{} clusters, {}: every cluster and machine in the end", own.clusters, own.side.title());
        report.compare(what, first.is_some_and(|first| first.end == own.end));
        let samples = |of: fn(&(Duration, Duration)) -> Duration| {
            own.rounds.iter().map(|round| Sample { cpu: Duration::ZERO, wall: of(round) }).collect::<Vec<_>>()
        };
        let (machines, done) = (samples(|round| round.0), samples(|round| round.1));
        report.row(format!("{:>3}  {}: all machines run it", own.clusters, own.side.title()), machines);
        report.row(format!("{:>3}  {}: says that it is done", own.clusters, own.side.title()), done);
    }
    for clusters in crate::sizes(&SIZES)? {
        let of = |side: Side| measured.iter().find(|own| own.side == side && own.clusters == clusters);
        if let (Some(ours), Some(script)) = (of(Side::Stepgate), of(Side::Script)) {
            let done = |own: &Measured| middle(own, |round| round.1).as_secs_f64();
            let ratio = done(script) / done(ours).max(f64::EPSILON);
            report.notes.push(format!("{clusters} clusters: the script takes {ratio:.2} times as long as Stepgate"));
        }
    }
    report.notes.extend(Side::ALL.map(|side| format!("{}: {}", side.title(), side.says())));
    if let Some(folder) = std::env::var_os("STEPGATE_DOCS") {
        page::write(Path::new(&folder), &measured, &programs)?;
    }
    Ok(report)
}

fn needed() -> Vec<&'static str> {
    let servers = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "clusterctl"];
    servers.into_iter().chain(Flux::NEEDED).chain(ClusterApi::NEEDED).collect()
}

/// The median of the rounds.
fn middle(measured: &Measured, of: fn(&(Duration, Duration)) -> Duration) -> Duration {
    let samples: Vec<Sample> =
        measured.rounds.iter().map(|round| Sample { cpu: Duration::ZERO, wall: of(round) }).collect();
    median(&samples, |sample| sample.wall)
}

/// Runs this program again where the ports of Cluster API's managers are free, and where all that it starts ends with it.
fn inside(side: Side, clusters: usize, rounds: usize, folder: &Path) -> anyhow::Result<Measured> {
    std::fs::create_dir_all(folder)?;
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        .arg(std::env::current_exe()?)
        .args([INSIDE_VERB, side.name(), &clusters.to_string(), &rounds.to_string()])
        .arg(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("run setpriv (of util-linux)")?;
    ensure!(
        output.status.success(),
        "{} with {clusters} clusters: {}",
        side.name(),
        String::from_utf8_lossy(&output.stderr)
    );
    let told: Value = serde_json::from_slice(&output.stdout).context("read what was measured")?;
    let rounds = told.get("rounds").and_then(Value::as_array).context("no rounds")?.iter().map(|round| {
        let seconds = |place: usize| round.get(place).and_then(Value::as_f64).map(Duration::from_secs_f64);
        seconds(0).zip(seconds(1)).context("a round of two times")
    });
    let rounds = rounds.collect::<anyhow::Result<_>>()?;
    Ok(Measured { side, clusters, rounds, end: told.get("end").cloned().unwrap_or_default() })
}

/// [`INSIDE_VERB`].
pub fn measure(arguments: &[String]) -> anyhow::Result<()> {
    let [side, clusters, rounds, folder] = arguments else { bail!("{INSIDE_VERB} SIDE CLUSTERS ROUNDS FOLDER") };
    let side = Side::ALL.into_iter().find(|known| known.name() == side).context("no such side")?;
    let (clusters, rounds) = (clusters.parse()?, rounds.parse()?);
    let programs = Programs::find(&needed())?;
    let told = tokio::runtime::Runtime::new()?.block_on(async {
        let scene = Scene::start(&programs, Path::new(folder), clusters).await?;
        let running = side.start(&scene)?;
        let mut times = Vec::new();
        for round in 1..=rounds {
            let version = fleet::version(round);
            let (machines, done) = side.bring(&scene, &version, round).await.with_context(|| match &running {
                Some(controller) => controller.last_lines(),
                None => format!("round {round}"),
            })?;
            times.push(json!([machines.as_secs_f64(), done.as_secs_f64()]));
        }
        let end = scene.end().await?;
        if let Some(mut controller) = running {
            controller.kill()?;
        }
        anyhow::Ok(json!({"rounds": times, "end": end}))
    })?;
    line(&told.to_string());
    Ok(())
}
