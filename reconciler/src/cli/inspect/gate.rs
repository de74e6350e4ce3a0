//! `stepgate gate replay`: what the gates would have said, on recordings and on dumped objects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;
use crate::cli::common::output::{Format, Report, Table};
use cluster::recording::{GateReplay, GateState, SampleVerdicts, Samples, read_dump};

/// Arguments of `stepgate gate`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Judge the `control-plane` and `workers/<group>` gates on every sample of a recording, or on a folder of dumped objects.
    ///
    /// A group is named as in a rollout: by the topology, by EKS Anywhere's group, else by its MachineDeployment or MachinePool; recordings keep no
    /// labels, so there it is the MachineDeployment's own name. With `-o json` one line is printed for each sample.
    ///
    /// The last sample decides the exit code: 0 when all gates pass, 3 when one has failed, 4 when one still waits.
    Replay(ReplayArguments),
}

#[derive(Debug, Args)]
struct ReplayArguments {
    /// A recording (`.jsonl`, compressed with xz or not), or a folder or file of dumped objects (`.yaml`, `.yml`, `.json`).
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,
    /// The version that the gates wait for, as far as it is known: `1.35`, `v1.35.0`, `v1.35.0-eks-1-35-4`.
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: String,
    /// Judge this cluster alone. Without it, clusters of one recording are judged together: a gate passes when all of them do.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// How long a gate has to hold before it passes, such as `30s` or `5m`.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    soak: Duration,
    /// Etcd runs apart from the control plane, so its health is not asked of the control plane.
    #[arg(long)]
    external_etcd: bool,
    /// The form of the output; `table` and `markdown` show the samples in which something changed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Carries out `stepgate gate …`.
///
/// # Errors
/// When the recording cannot be read (with file, line and what to do), or the chosen cluster is not in it.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    match &arguments.verb {
        Verb::Replay(arguments) => replay(arguments),
    }
}

fn replay(arguments: &ReplayArguments) -> Result<Exit, CommandError> {
    let mut replay = GateReplay::new(&arguments.kubernetes_version)
        .cluster(arguments.cluster.clone())
        .soak(arguments.soak)
        .stacked_etcd(arguments.external_etcd.then_some(false));
    let mut samples = Vec::new();
    let mut last = None;
    let mut print = |verdicts: SampleVerdicts| {
        last = verdicts.gates.values().map(|gate| gate.verdict).max();
        match arguments.output {
            // Line by line, so that what comes before a damaged line is seen and a pipe sees each line at once.
            Format::Json => output::print_line(&verdicts),
            Format::Table | Format::Yaml | Format::Markdown | Format::Wide | Format::Name => {
                samples.push(verdicts);
                Ok(())
            }
        }
    };
    if is_dump(&arguments.path) {
        print(replay.judge_dump(&read_dump(&arguments.path)?))?;
    } else {
        for sample in Samples::open(&arguments.path)? {
            print(replay.judge(&sample?))?;
        }
    }
    if arguments.output != Format::Json {
        output::print(arguments.output, &ReplayReport { samples })?;
    }
    let clusters: Vec<&str> = replay.clusters().into_iter().collect();
    match &arguments.cluster {
        Some(cluster) if !clusters.contains(&cluster.as_str()) => {
            let message = format!("cluster {cluster} is not in {}", arguments.path.display());
            Err(CommandError::new(message).hint(format!("it holds: {}", clusters.join(", "))))
        }
        _ => Ok(match last {
            Some(GateState::Pass) => Exit::Success,
            Some(GateState::Fail) => Exit::Blocked,
            Some(GateState::Wait) | None => Exit::Waiting,
        }),
    }
}

fn is_dump(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    path.is_dir() || matches!(extension, Some("yaml" | "yml" | "json"))
}

fn duration(text: &str) -> Result<Duration, String> {
    let invalid = |reason: String| format!("{reason}; expected a duration such as 30s or 5m");
    let duration: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| invalid(error.to_string()))?;
    duration.try_into().map_err(|_| invalid(format!("{text} is negative")))
}

/// The verdicts on every sample.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct ReplayReport {
    /// In the order of the recording.
    pub samples: Vec<SampleVerdicts>,
}

impl Report for ReplayReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut last = BTreeMap::new();
        let mut rows = Vec::new();
        for sample in &self.samples {
            for (name, gate) in &sample.gates {
                if last.insert(name, gate) != Some(gate) {
                    let verdict = gate.verdict.as_str().to_owned();
                    rows.push(vec![format!("{:.2}", sample.t), name.clone(), verdict, gate.reason.clone()]);
                }
            }
        }
        let notes = vec![format!("{} samples, the ones shown differ from the one before", self.samples.len())];
        vec![(None, Table { headers: vec!["T", "GATE", "VERDICT", "REASON"], rows, notes, width: None })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_told_from_dumped_objects_by_its_name() {
        for (path, dump) in [
            ("a.jsonl", false),
            ("a.jsonl.xz", false),
            ("a", false),
            ("a.yaml", true),
            ("a.yml", true),
            ("a.json", true),
            ("/", true),
        ] {
            assert_eq!(is_dump(Path::new(path)), dump, "{path}");
        }
    }

    #[test]
    fn a_soak_is_a_duration_that_is_not_negative() {
        for (text, expected) in [
            ("0s", Some(0)),
            ("30s", Some(30)),
            ("5m", Some(300)),
            ("1m 30s", Some(90)),
            ("-1s", None),
            ("5", None),
            ("soon", None),
        ] {
            assert_eq!(duration(text).ok().map(|duration| duration.as_secs()), expected, "{text}");
        }
    }

    #[test]
    fn a_table_shows_only_what_changed() {
        use cluster::recording::ReplayedGate;
        let sample = |t: f64, verdict, reason: &str| SampleVerdicts {
            t,
            gates: BTreeMap::from([(
                String::from("control-plane"),
                ReplayedGate { verdict, reason: reason.to_owned() },
            )]),
        };
        let samples = vec![
            sample(0.0, GateState::Wait, "a"),
            sample(1.0, GateState::Wait, "a"),
            sample(2.0, GateState::Wait, "b"),
            sample(3.0, GateState::Pass, "c"),
        ];
        let rows = ReplayReport { samples }.tables().remove(0).1.rows;
        let times: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(times, ["0.00", "2.00", "3.00"]);
    }
}
