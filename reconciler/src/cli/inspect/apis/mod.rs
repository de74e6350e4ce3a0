//! `stepgate check apis`: what is written for API versions that a target does not serve.

mod live;
mod manifests;
pub(in crate::cli) mod report;
mod sarif;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use rollout::check::{ApiComponent, ApiTargets, Release, minor_of};

use crate::cli::ClusterArguments;
use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::output;

/// Arguments of `stepgate check apis`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The version of Kubernetes that clusters go to, such as 1.36.
    #[arg(long, value_name = "VERSION", value_parser = minor)]
    target: u32,
    /// The version that something installed in them goes to, such as cert-manager=1.16; may be repeated. Known are cert-manager, flux, capi,
    /// istio, knative-serving, knative-eventing and cilium. Without it, what a later version of it takes away is told.
    #[arg(long, value_name = "NAME=VERSION", value_parser = component)]
    component: Vec<(ApiComponent, Release)>,
    /// Files and folders of manifests; `-` for standard input.
    #[arg(value_name = "PATH", default_value = ".", conflicts_with = "live")]
    paths: Vec<PathBuf>,
    /// Look into a running cluster instead: manifests that were applied, autoscalers, Helm releases, webhooks, and what clients
    /// asked its API server for.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    access: ClusterArguments,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: ApiFormat,
}

/// The form of the data on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ApiFormat {
    /// Columns for people.
    #[default]
    Table,
    /// One JSON document, schema in `reconciler/schemas/`.
    Json,
    /// The same document as YAML.
    Yaml,
    /// The table for a pull request or a page.
    Markdown,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

/// Looks, and prints what was found: exit code 3 where something is not served at the target, 4 where something could not be judged.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let components: BTreeMap<ApiComponent, Release> = arguments.component.iter().copied().collect();
    let targets = ApiTargets { kubernetes: arguments.target, components };
    let report = if arguments.live {
        live::report(&targets, &arguments.access)?
    } else {
        manifests::report(&targets, &arguments.paths)?
    };
    match arguments.output {
        ApiFormat::Table => output::print(output::Format::Table, &report)?,
        ApiFormat::Json => output::print(output::Format::Json, &report)?,
        ApiFormat::Yaml => output::print(output::Format::Yaml, &report)?,
        ApiFormat::Markdown => output::print(output::Format::Markdown, &report)?,
        ApiFormat::Sarif => output::print_content(&sarif::text(&report)?)?,
    }
    Ok(report.exit())
}

fn minor(text: &str) -> Result<u32, String> {
    minor_of(text).ok_or_else(|| format!("{text:?} is not a version of Kubernetes, such as 1.36"))
}

fn component(text: &str) -> Result<(ApiComponent, Release), String> {
    let (name, version) = text.split_once('=').ok_or("NAME=VERSION is expected, such as cert-manager=1.16")?;
    let mut numbers = version.strip_prefix('v').unwrap_or(version).split(['.', '-', '+']).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((name.parse()?, (major, minor))),
        _ => Err(format!("{version:?} is not a version, such as 1.16")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_versions_of_what_is_known() {
        assert_eq!((minor("v1.36.4"), minor("1.36").ok()), (Ok(36), Some(36)));
        assert_eq!(component("cert-manager=v1.16.2"), Ok((ApiComponent::CertManager, (1, 16))));
        assert!(minor("36").unwrap_err().contains("such as 1.36"));
        for (text, expected) in [
            ("cert-manager", "NAME=VERSION"),
            ("linkerd=2.1", "is not a known component"),
            ("flux=two", "such as 1.16"),
        ] {
            let error = component(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
