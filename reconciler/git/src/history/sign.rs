//! Signatures of commits, made by the programs that people verify them with.

use std::convert::Infallible;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use crate::error::GitError;
use crate::remote::program::{Patience, run};
use host::disk;

/// How commits are signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// Not at all.
    #[default]
    None,
    /// With an SSH key, by `ssh-keygen -Y sign` in the namespace `git`.
    Ssh {
        /// The private key without a passphrase, or a public key whose private half an agent holds.
        key: PathBuf,
        /// Name or path of the program, usually `ssh-keygen`.
        program: PathBuf,
    },
    /// With an `OpenPGP` key, by `gpg`.
    OpenPgp {
        /// Key id, fingerprint or address, as `gpg --local-user` takes it.
        key: String,
        /// Name or path of the program, usually `gpg`.
        program: PathBuf,
    },
}

impl FromStr for Signing {
    type Err = Infallible;

    /// `gpg:` and the id of a key, or the file of an SSH key.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix("gpg:") {
            Some(key) => Self::OpenPgp { key: key.to_owned(), program: "gpg".into() },
            None => Self::Ssh { key: text.into(), program: "ssh-keygen".into() },
        })
    }
}

impl Signing {
    /// The armoured signature of `content`; none when commits are not signed.
    pub(crate) fn sign(&self, content: &[u8], timeout: Duration) -> Result<Option<String>, GitError> {
        let (mut command, shown) = match self {
            Self::None => return Ok(None),
            Self::Ssh { key, program } => {
                // A pipe in its place would hold the program up.
                disk::open(key).map_err(|error| GitError::Signing {
                    program: program.display().to_string(),
                    message: format!("cannot read the key {}: {error}", key.display()),
                })?;
                let mut command = Command::new(program);
                command.args(["-Y", "sign", "-n", "git", "-f"]).arg(key);
                (command, program.display().to_string())
            }
            Self::OpenPgp { key, program } => {
                let mut command = Command::new(program);
                command.args(["--batch", "--no-tty", "--pinentry-mode", "error", "--armor", "--detach-sign"]);
                // One argument, so that a key that looks like an option stays a key.
                command.arg(format!("--local-user={key}"));
                (command, program.display().to_string())
            }
        };
        command.env("LC_ALL", "C").env("SSH_ASKPASS_REQUIRE", "never").env_remove("SSH_ASKPASS");
        let output = run(command, &shown, Some(content.to_vec()), Patience::Within(timeout), None)?;
        let signature = output.text();
        if output.status.success() && signature.starts_with("-----BEGIN ") {
            Ok(Some(signature))
        } else {
            let said = output.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
            let message = if said.is_empty() { "it wrote no signature".to_owned() } else { said.join("; ") };
            Err(GitError::Signing { program: shown, message })
        }
    }
}
