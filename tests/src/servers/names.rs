//! Names of servers as this test's machine knows them, and times in which it does not.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::isolation::is_isolated;

/// What names of servers end in. Certificates of [`Authority::server`](super::Authority::server) are for all of them.
pub const DOMAIN: &str = "servers.test";

/// How names are that are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The name server says that there is no such name.
    Unknown,
    /// The name server says nothing.
    Unanswered,
}

/// Names on loopback in a mount namespace, and the name server that knows none of them; both end when dropped.
pub struct Names {
    hosts: PathBuf,
    known: Mutex<BTreeSet<String>>,
    gone: watch::Sender<Gone>,
    task: JoinHandle<()>,
}

impl Names {
    /// From now on the machine knows these names alone, and asks a name server for others that gives up after a second.
    ///
    /// # Errors
    /// When the test has no namespaces of its own, or files cannot be put in the place of the machine's.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        ensure!(is_isolated(), "the machine's own names would be hidden: run it in namespaces of its own");
        let hosts = folder.join("hosts");
        std::fs::write(&hosts, "127.0.0.1 localhost\n")?;
        place(&hosts, "/etc/hosts")?;
        for (name, text) in [
            ("resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"),
            ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
        ] {
            let file = folder.join(name);
            std::fs::write(&file, text)?;
            place(&file, &format!("/etc/{name}"))?;
        }
        let socket = UdpSocket::bind("127.0.0.1:53").await.context("could not be the name server")?;
        let (gone, is_gone) = watch::channel(Gone::Unknown);
        let task = tokio::spawn(async move {
            let mut message = [0; 512];
            while let Ok((length, whom)) = socket.recv_from(&mut message).await {
                let Some(asked) = message.get_mut(..length) else { continue };
                if let ([_, _, flags, code, ..], Gone::Unknown) = (&mut *asked, *is_gone.borrow()) {
                    // RFC 1035, 4.1.1: an answer, and there is no such name.
                    *flags |= 0x80;
                    *code = 0x83;
                    let _ = socket.try_send_to(asked, whom);
                }
            }
        });
        Ok(Self { hosts, known: Mutex::default(), gone, task })
    }

    /// Whoever asks for this name of [`DOMAIN`] is led to loopback; the whole name.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn know(&self, name: &str) -> anyhow::Result<String> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        self.write()?;
        Ok(format!("{name}.{DOMAIN}"))
    }

    /// The name is gone, in this way.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn forget(&self, name: &str, gone: Gone) -> anyhow::Result<()> {
        self.gone.send_replace(gone);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.write()
    }

    fn write(&self) -> anyhow::Result<()> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = known.iter().map(|name| format!("127.0.0.1 {name}.{DOMAIN}\n"));
        let text: String = std::iter::once(String::from("127.0.0.1 localhost\n")).chain(lines).collect();
        // In place: what is seen at its usual path is this very file.
        std::fs::write(&self.hosts, text).with_context(|| self.hosts.display().to_string())
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Puts a file in the place of another one, for this mount namespace.
fn place(file: &Path, over: &str) -> anyhow::Result<()> {
    let output = Command::new("mount").arg("--bind").arg(file).arg(over).output().context("could not run mount")?;
    ensure!(output.status.success(), "mount over {over}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Folder, isolated};
    use super::*;

    async fn resolves(name: &str) -> bool {
        tokio::net::lookup_host((name.to_owned(), 80)).await.is_ok()
    }

    #[test]
    fn a_name_is_known_until_it_is_forgotten_in_either_way() {
        let name = "servers::names::tests::a_name_is_known_until_it_is_forgotten_in_either_way";
        isolated(name, &[], async |_| {
            let folder = Folder::new()?;
            let names = Names::start(folder.path()).await?;
            for gone in [Gone::Unknown, Gone::Unanswered] {
                let whole = names.know("git")?;
                assert!(resolves(&whole).await);
                names.forget("git", gone)?;
                assert!(!resolves(&whole).await);
            }
            folder.done();
            Ok(())
        });
    }
}
