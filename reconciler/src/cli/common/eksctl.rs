//! Which eksctl and aws are asked and started: the operator's word, never the repository's.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::common::error::CommandError;
use cluster::eksctl::{Aws, EksPrograms, Eksctl, PinnedProgram, ProgramKind};

/// The programs for clusters of EKS.
#[derive(Clone, Debug, Args)]
pub struct EksctlArguments {
    /// The eksctl that clusters of EKS are asked through, and that `apply: eksctl` is carried out by. It sees the variables `AWS_*` of this process,
    /// and the credentials of its machine.
    #[arg(long, env = "STEPGATE_EKSCTL", value_name = "FILE", requires_all = ["eksctl_digest", "eksctl_version"])]
    eksctl: Option<PathBuf>,
    /// The digest of that file: another one is not started.
    #[arg(long, env = "STEPGATE_EKSCTL_DIGEST", value_name = "sha256:HEX", value_parser = digest)]
    eksctl_digest: Option<String>,
    /// What that eksctl says of itself (`eksctl version`): another one is not started.
    #[arg(long, env = "STEPGATE_EKSCTL_VERSION", value_name = "VERSION")]
    eksctl_version: Option<String>,
    /// Where it is noted down what was started for which commit, so that the next process goes on there: a disk that stays.
    #[arg(long, env = "STEPGATE_EKSCTL_STATE", value_name = "DIR", default_value = "stepgate-eksctl")]
    eksctl_state: PathBuf,
    /// How long one command of eksctl may take, in seconds: then it is ended, and tried again later.
    #[arg(long, env = "STEPGATE_EKSCTL_TIMEOUT", value_name = "SECONDS", default_value_t = 5400)]
    eksctl_timeout: u64,
    /// The command line of AWS, by which gates ask for more of clusters of EKS: updates and their errors, what is wrong with node groups, insights,
    /// and what is left behind. It sees what eksctl sees.
    #[arg(long, env = "STEPGATE_AWS", value_name = "FILE", requires_all = ["aws_digest", "aws_version"])]
    aws: Option<PathBuf>,
    /// The digest of that file: another one is not started.
    #[arg(long, env = "STEPGATE_AWS_DIGEST", value_name = "sha256:HEX", value_parser = digest)]
    aws_digest: Option<String>,
    /// What that program says of itself (`aws --version`: what stands behind `aws-cli/`): another one is not started.
    #[arg(long, env = "STEPGATE_AWS_VERSION", value_name = "VERSION")]
    aws_version: Option<String>,
}

fn digest(text: &str) -> Result<String, String> {
    let is_valid = text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    });
    match is_valid {
        true => Ok(text.to_owned()),
        false => Err("it is not a valid digest: write `sha256:` and what `sha256sum FILE` prints".to_owned()),
    }
}

impl EksctlArguments {
    /// The programs that are named.
    ///
    /// # Errors
    /// When the folder of eksctl's runs has no absolute path.
    pub fn open(&self) -> Result<EksPrograms, CommandError> {
        let pinned = |kind, path: &Option<PathBuf>, digest: &Option<String>, version: &Option<String>| {
            let (digest, version) = (digest.clone().unwrap_or_default(), version.clone().unwrap_or_default());
            path.clone().map(|path| PinnedProgram::new(kind, path, digest, version))
        };
        let eksctl = pinned(ProgramKind::Eksctl, &self.eksctl, &self.eksctl_digest, &self.eksctl_version);
        let aws = pinned(ProgramKind::Aws, &self.aws, &self.aws_digest, &self.aws_version);
        // The program runs where Stepgate does, and is given the path of a file there.
        let state = std::path::absolute(&self.eksctl_state)?;
        let limit = Duration::from_secs(self.eksctl_timeout.max(60));
        Ok(EksPrograms { eksctl: eksctl.map(|program| Eksctl::new(program, state, limit)), aws: aws.map(Aws::new) })
    }
}
