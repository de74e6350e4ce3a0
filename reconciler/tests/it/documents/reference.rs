//! References: what the program says of itself, and what the documents say of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};
use regex::Regex;
use stepgate::cli::Cli;

use super::{read, root};
use crate::support::stepgate;

const HEADING: &str = "# Commands

What `--help` prints. Flags that many verbs take stand at the end, once.
`UPDATE_FIXTURES=1 cargo test -p stepgate --test it documents` writes this file anew.
";

/// An argument that as many commands take is described once.
const MANY: usize = 5;

/// Flags of every command.
const EVERYWHERE: [&str; 6] = ["help", "version", "log_level", "memory_limit", "bundle_keys", "log_format"];

/// Arguments by their name and what is said of them, with the commands that take them.
type Shared = BTreeMap<(String, String), (Arg, Vec<String>)>;

fn key(argument: &Arg) -> (String, String) {
    (argument.get_id().to_string(), argument.get_help().map(ToString::to_string).unwrap_or_default())
}

fn collect(command: &Command, path: &str, shared: &mut Shared) {
    for argument in command.get_arguments().filter(|argument| !argument.is_positional()) {
        let (_, takers) = shared.entry(key(argument)).or_insert((argument.clone(), Vec::new()));
        takers.push(path.to_owned());
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        collect(inner, &format!("{path} {}", inner.get_name()), shared);
    }
}

/// The help of a command and of all below it, without what is described elsewhere.
fn describe(command: &Command, path: &str, shared: &Shared, text: &mut String) {
    let is_elsewhere = |argument: &Arg| shared.contains_key(&key(argument));
    let hidden = |argument: Arg| if is_elsewhere(&argument) { argument.hide(true) } else { argument };
    let mut own = command.clone().mut_args(hidden);
    if path != "stepgate" {
        own = own.override_usage(usage(command, path));
    }
    let _ = write!(text, "\n## {path}\n\n```text\n{}\n```\n", trimmed(&own.render_long_help().to_string()));
    let has_more = |argument: &Arg| is_elsewhere(argument) && !EVERYWHERE.contains(&argument.get_id().as_str());
    if command.get_arguments().any(has_more) {
        text.push_str("\nAnd [flags of many verbs](#flags-of-many-verbs).\n");
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        describe(inner, &format!("{path} {}", inner.get_name()), shared, text);
    }
}

fn usage(command: &Command, path: &str) -> String {
    let usage = command.clone().render_usage().to_string();
    usage.replacen("Usage: ", "", 1).replacen(command.get_bin_name().unwrap_or(path), path, 1)
}

fn trimmed(help: &str) -> String {
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// Values of variables are those of whoever runs the tests.
fn without_values(command: Command) -> Command {
    command.mut_args(|argument| argument.hide_env_values(true)).mut_subcommands(without_values)
}

/// The whole document.
fn document() -> String {
    let mut command = without_values(Cli::command().term_width(100));
    command.build();
    let mut shared = Shared::new();
    collect(&command, "stepgate", &mut shared);
    shared.retain(|(id, _), (_, takers)| takers.len() >= MANY && id != "output" && id != "yes");
    let mut text = HEADING.to_owned();
    describe(&command, "stepgate", &shared, &mut text);
    let mut many = Command::new("stepgate").disable_help_flag(true).term_width(100).help_template("{options}");
    let mut takers = String::new();
    for ((id, _), (argument, verbs)) in shared.iter().filter(|((id, _), _)| id != "help" && id != "version") {
        many = many.arg(argument.clone().hide(false).required(false).global(false));
        let verbs: Vec<String> = verbs.iter().map(|verb| format!("`{}`", verb.replacen("stepgate ", "", 1))).collect();
        let verbs = if EVERYWHERE.contains(&id.as_str()) { "every verb".to_owned() } else { verbs.join(", ") };
        let _ = writeln!(takers, "| `--{}` | {verbs} |", argument.get_long().unwrap_or_default());
    }
    let help = trimmed(&many.render_long_help().to_string());
    let _ = write!(text, "\n## Flags of many verbs\n\n```text\n{help}\n```\n\n| flag | verbs |\n|---|---|\n{takers}");
    format!("{}\n", text.trim_end())
}

#[test]
fn the_commands_in_the_documents_are_those_of_the_program() {
    let text = document();
    let file = root().join("reconciler/docs/cli.md");
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "{} is not what `--help` prints: run with UPDATE_FIXTURES=1", file.display());
}

/// The first cell of each row of the tables below a heading, without backticks.
fn cells(text: &str, heading: &str) -> BTreeSet<String> {
    let from = text.split_once(heading).unwrap_or_else(|| panic!("there is no {heading}")).1;
    let section = from.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.filter_map(|row| row.split('|').nth(1)).map(|cell| cell.trim().replace('`', "")).collect()
}

/// The families of metrics that the program registers. Of what has not happened yet, nothing is
/// exposed: what is registered counts.
fn registered() -> BTreeSet<String> {
    let source = read("reconciler/src/telemetry/metrics.rs");
    let registered = Regex::new(r#"registry\.register(_with_unit)?\(\s*"([a-z_]+)"[^;]*;"#).unwrap();
    let name = |found: regex::Captures<'_>| {
        let unit = if found[0].contains("Unit::Seconds") { "_seconds" } else { "" };
        format!("stepgate_{}{unit}", &found[2])
    };
    let names: BTreeSet<String> = registered.captures_iter(&source).map(name).collect();
    assert!(names.len() > 5, "{names:?}");
    names
}

/// A family without the endings of samples: of counters, of buckets, and of what is said once.
fn family(name: &str) -> String {
    ["_total", "_info", "_bucket"].iter().fold(name, |name, end| name.trim_end_matches(end)).to_owned()
}

#[test]
fn the_metrics_in_the_documents_are_those_of_the_program() {
    let documented: BTreeSet<String> =
        cells(&read("reconciler/docs/metrics.md"), "# Metrics").iter().map(|name| family(name)).collect();
    assert_eq!(documented, registered());
}

#[test]
fn every_metric_of_alerts_and_dashboard_is_one_of_the_program() {
    let metric = Regex::new("stepgate_[a-z_]+").unwrap();
    let registered = registered();
    for file in ["monitoring.yaml", "monitoring-dashboard.json"] {
        let text = read(&format!("reconciler/install/{file}"));
        let named: BTreeSet<String> = metric.find_iter(&text).map(|found| family(found.as_str())).collect();
        assert!(named.len() > 5, "{file}: {named:?}");
        assert_eq!(named.difference(&registered).collect::<Vec<_>>(), Vec::<&String>::new(), "{file}");
    }
}

#[test]
fn every_alert_is_documented_and_has_an_entry() {
    let (metrics, help) = (read("reconciler/docs/metrics.md"), read("reconciler/docs/troubleshooting.md"));
    let rules = read("reconciler/install/monitoring.yaml");
    let alerts: BTreeSet<String> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect();
    assert_eq!(cells(&metrics, "## Alerts"), alerts);
    for alert in &alerts {
        assert!(help.contains(&format!("\n### {alert}\n")), "{alert} has no entry");
        let entry = format!("runbook_url: \"${{RUNBOOKS}}#{}\"", alert.to_lowercase());
        assert!(rules.contains(&entry), "{alert} names no entry");
    }
}

#[test]
fn every_field_of_the_policy_is_documented() {
    let (template, document) = (stepgate(&["init", "--stdout"]).stdout, read("reconciler/docs/policy.md"));
    let mut fields = BTreeSet::new();
    for line in template.lines() {
        let line = line.trim_start_matches('#').trim_start().trim_start_matches("- ");
        let Some((name, rest)) = line.split_once(':') else { continue };
        let is_field = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|sign| sign.is_ascii_alphanumeric())
            && (rest.is_empty() || rest.starts_with(' '));
        if is_field {
            fields.insert(name);
        }
    }
    // Names that a team gives, and a value of Cilium's chart.
    for example in ["production", "platform", "alice", "hubble", "enabled", "once"] {
        fields.remove(example);
    }
    assert!(fields.len() > 40, "{fields:?}");
    let documented: BTreeSet<&str> =
        document.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let missing: Vec<&&str> = fields.iter().filter(|field| !documented.contains(**field)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_check_is_documented_with_what_it_holds_up() {
    let document = read("reconciler/docs/checks.md");
    for check in rollout::check::CHECKS {
        let section = document.split_once(&format!("\n## {}\n\n", check.name)).map_or("", |(_, section)| section);
        let expected = match check.severity {
            rollout::check::CheckSeverity::Blocking => "Blocking",
            rollout::check::CheckSeverity::Advisory => "Advisory",
        };
        assert!(section.starts_with(expected), "{}: {section:.40}", check.name);
        assert_eq!(check.documentation(), format!("reconciler/docs/checks.md#{}", check.name));
    }
}

/// The guide says of every field of a Kustomization what becomes of it, as the program does it.
#[test]
fn fields_of_flux_kustomizations_are_documented() {
    let guide = read("reconciler/docs/flux-migration.md");
    let row = Regex::new(r"(?m)^\| `(\w+)` \| ([a-z ]+) \|.*\|$").unwrap();
    let told: Vec<(String, String)> =
        row.captures_iter(&guide).map(|row| (row[1].to_owned(), row[2].to_owned())).collect();
    let used = overlays::FLUX_FIELDS.iter().map(|(name, used)| ((*name).to_owned(), used.word().to_owned()));
    assert_eq!(told, used.collect::<Vec<_>>());
}
