//! Repositories served over SSH, by OpenSSH's own server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use tokio::net::TcpStream;

use crate::servers::port::free_port;
use crate::servers::process::Process;

/// Where Debian's openssh-server puts it: it has to be started by its whole path.
const PROGRAM: &str = "/usr/sbin/sshd";

/// Where it wants a folder when root starts it.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

/// A running server on loopback, for keys that it was told of; it ends when dropped.
pub struct SshServer {
    /// The program.
    pub server: Process,
    folder: PathBuf,
    port: u16,
    user: String,
}

impl SshServer {
    /// Whether there is a server to start: Debian's openssh-server, which `tests/run` installs where it may.
    #[must_use]
    pub fn is_there() -> bool {
        Path::new(PROGRAM).is_file()
    }

    /// Whether this user namespace lets the server give up groups, without which it serves nobody: that of a user who may make no other
    /// namespaces without it does not.
    #[must_use]
    pub fn may_serve() -> bool {
        fs::read_to_string("/proc/self/setgroups").is_ok_and(|setgroups| setgroups.trim() != "deny")
    }

    /// Starts it with keys of its own below `folder`. Whoever has one of its keys is the user of this test, and may do what git does and
    /// nothing else.
    ///
    /// # Errors
    /// When it does not start; with the end of its log.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join("ssh");
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all(PRIVILEGE_SEPARATION)?;
        }
        let user = Command::new("id").arg("-un").output().context("could not run id")?;
        let user = String::from_utf8(user.stdout)?.trim().to_owned();
        make_key(&folder.join("host"))?;
        fs::write(folder.join("authorized_keys"), "")?;
        let port = free_port()?;
        let within = |name: &str| folder.join(name).display().to_string();
        let settings = [
            format!("ListenAddress 127.0.0.1:{port}"),
            format!("HostKey {}", within("host")),
            format!("AuthorizedKeysFile {}", within("authorized_keys")),
            format!("PidFile {}", within("sshd.pid")),
            "StrictModes no".to_owned(),
            "UsePAM no".to_owned(),
            "PermitRootLogin prohibit-password".to_owned(),
            "AuthenticationMethods publickey".to_owned(),
            "LogLevel VERBOSE".to_owned(),
            format!("AllowUsers {user}"),
            // The shell of a login reads the files of its home first: what somebody's do there takes any time and may wait forever.
            format!("SetEnv HOME={}", folder.display()),
        ];
        fs::write(folder.join("sshd_config"), settings.join("\n") + "\n")?;
        let mut command = Command::new(PROGRAM);
        // In the foreground, its log on standard error.
        command.args(["-D", "-e", "-f"]).arg(folder.join("sshd_config"));
        let mut server = Process::start(&folder, "sshd", command)?;
        server.wait_until(async || TcpStream::connect(("127.0.0.1", port)).await.is_ok()).await?;
        Ok(Self { server, folder, port, user })
    }

    /// A key that may read and write every repository of this user, in a folder as Stepgate and Flux want it: `identity` and `known_hosts`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn key(&self, name: &str) -> anyhow::Result<PathBuf> {
        let secret = self.folder.join(name);
        fs::create_dir_all(&secret)?;
        let public = make_key(&secret.join("identity"))?;
        let host = fs::read_to_string(self.folder.join("host.pub"))?;
        fs::write(secret.join("known_hosts"), format!("[127.0.0.1]:{} {host}", self.port))?;
        let authorized = self.folder.join("authorized_keys");
        let known = fs::read_to_string(&authorized)?;
        let only_git = "restrict,command=\"git-shell -c \\\"$SSH_ORIGINAL_COMMAND\\\"\"";
        fs::write(authorized, format!("{known}{only_git} {public}"))?;
        Ok(secret)
    }

    /// No key is let in any more.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn lock_out(&self) -> anyhow::Result<()> {
        Ok(fs::write(self.folder.join("authorized_keys"), "")?)
    }

    /// The address of a repository on this machine.
    #[must_use]
    pub fn url(&self, repository: &Path) -> String {
        format!("ssh://{}@127.0.0.1:{}{}", self.user, self.port, repository.display())
    }
}

/// Makes a key pair; the public one.
fn make_key(path: &Path) -> anyhow::Result<String> {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "only-for-tests", "-f"])
        .arg(path)
        .output()
        .context("could not run ssh-keygen")?;
    if !made.status.success() {
        bail!("ssh-keygen: {}", String::from_utf8_lossy(&made.stderr));
    }
    Ok(fs::read_to_string(path.with_extension("pub"))?)
}
